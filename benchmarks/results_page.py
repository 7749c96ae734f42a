"""What benchmarks with one file of results and one page about it share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Known = dict[str, Any]


def origin(known: Known, command: str) -> str:
    """The last line of a page: machine, date, versions, seed, and how to get it again."""
    about = f"{known['device']}, {known['machine']}; {known['date'][:10]}; commit {known['commit']}"
    versions = ", ".join(f"{name} {number}" for name, number in known["versions"].items())
    return f"{about}; {versions}; seed {known['seed']}. Again with `python -m {command}`.\n"


def run(
    words: str | None,
    folder: Path,
    datasets: Sequence[str],
    measure: Callable[[list[str], int, Path], Known],
    page: Callable[[Known], str],
) -> None:
    """Measures, and writes results and page; with ``page`` on the command line, the page alone.

    Args:
        words: what the benchmark is, for ``--help``.
        folder: where results go by default.
        datasets: by default.
        measure: of data sets, a seed, and the file that results will be in.
        page: of results.
    """
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("what", nargs="?", choices=("run", "page"), default="run")
    parser.add_argument("--output", type=Path, default=folder)
    parser.add_argument("--datasets", nargs="+", default=list(datasets))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    file = given.output / "results.json"
    if given.what == "run":
        known = measure(given.datasets, given.seed, file)
        file.write_text(json.dumps(known, indent=1) + "\n")
    (given.output / "results.md").write_text(page(json.loads(file.read_text())))
