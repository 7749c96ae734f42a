"""What ``legs reproduce`` does: runs experiments and prints their tables."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from legs.cli.console import Console, Plan
from legs.cli.options import interrupted
from legs.training.runs import choose_device
from reproduction.page import Report
from reproduction.plan import Request, document, experiment
from reproduction.run import run

# Options that change no number are not part of the record.
UNRECORDED = ("-o", "--output", "--reuse", "--minutes", "--at-once")


def main(names: Sequence[str], output: Path | None, device: str, **options: Any) -> None:
    """Runs experiments one after another, or lists them if none is named.

    The results of several experiments go into folders inside of ``output``.
    """
    console = Console()
    experiments = document()["experiments"]
    if not names:
        for name, spec in experiments.items():
            print(f"{name:<{max(map(len, experiments))}}  {spec['summary']}")
        print("legs reproduce NAME runs one; --quick takes minutes on two cores.")
        return
    for name in names:
        experiment(name)
    device, command = choose_device(device), recorded(sys.argv[1:])
    for name in names:
        folder = output
        if output is None or len(names) > 1:
            place = f"{name}-quick" if options["quick"] else name
            folder = (output or Path("legs-reproduce")) / place
        request = Request(folder, device=device, command=command, **options)
        try:
            with Plan(console) as bar:
                report = run(name, request, bar.show)
        except KeyboardInterrupt:
            raise interrupted("resumes") from None
        show(report, console)


def recorded(words: Sequence[str]) -> str:
    """The command line for the record.

    >>> recorded(["reproduce", "qm9", "-o", "x", "--reuse=y", "--minutes", "5", "--seed", "1"])
    'legs reproduce qm9 --seed 1'
    """
    recorded_words, rest = ["legs"], iter(words)
    for word in rest:
        if word in UNRECORDED:
            next(rest, None)  # its value
        elif word.partition("=")[0] not in UNRECORDED:
            recorded_words.append(word)
    return shlex.join(recorded_words)


def show(report: Report, console: Console) -> None:
    """Prints the table, the notes and the names of the files."""
    table = report.table.to_string(index=False) if len(report.table) else ""
    for line in [report.title, *table.splitlines(), *report.notes]:
        console.echo(line)
    console.echo(f"{report.request.folder}/: {', '.join(path.name for path in report.files)}")
