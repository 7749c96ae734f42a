"""``legs bench``: how fast scattering is on this machine, beside others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from legs.cli.train import Device

if TYPE_CHECKING:
    from rich.console import Console

    from legs.experiments.speed import Result

JSON, MARKDOWN = "bench.json", "bench.md"


def bench(
    device: Annotated[
        Device, typer.Option(help="Where to compute; auto takes a GPU if there is one.")
    ] = Device.auto,
    threads: Annotated[
        int | None, typer.Option(min=1, show_default="PyTorch's", help="Threads on the CPU.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes: less than a minute.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="GROUPS",
            show_default="all",
            help="Some of batches,single,growth.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the results.")
    ] = Path("legs-bench"),
) -> None:
    """Measure how fast scattering is here, beside a plain formulation, GCN and GIN.

    Batches of real graphs, one large graph, and growth with every size; each time as a ratio to
    the reference in the same run, and which kernels ran. Takes the data sets that are on this
    machine, and some minutes; with --quick less than one.
    """
    groups = _groups(only)
    # Imported here: torch takes seconds, and `legs --help` must not.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from legs.experiments.speed import plan_of, run
    from legs.experiments.speed.running import check_device

    check_device(device.value)
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file; -o takes a folder for the results")
    output.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    columns = (BarColumn(bar_width=12), TimeElapsedColumn(), TextColumn("{task.description}"))
    bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bars:
        task = bars.add_task("starting", total=None)
        result = run(
            plan_of(quick),
            device.value,
            groups=groups,
            threads=threads,
            report=lambda done, cases, name: bars.update(
                task, completed=done, total=cases, description=name
            ),
            keep=lambda result: _write(result, output),
        )
    _write(result, output)
    _show(result, console)
    console.print(f"Results are in {output}/{JSON} and {MARKDOWN}", soft_wrap=True, markup=False)


def _groups(only: str | None) -> tuple[str, ...]:
    """The groups of cases named on the command line."""
    from legs.experiments.speed.plan import GROUPS

    if only is None:
        return GROUPS
    named = [name.strip() for name in only.split(",") if name.strip()]
    for name in named:
        if name not in GROUPS:
            raise ValueError(f"--only takes some of {','.join(GROUPS)}; got {name!r}")
    if not named:
        raise ValueError(f"--only takes some of {','.join(GROUPS)}; got none")
    return tuple(group for group in GROUPS if group in named)


def _write(result: Result, folder: Path) -> None:
    from legs.experiments.speed.summary import sentences
    from legs.experiments.speed.tables import markdown
    from legs.files import write_atomically

    known = result.as_dict()
    write_atomically(folder / JSON, (json.dumps(known, indent=1) + "\n").encode())
    write_atomically(folder / MARKDOWN, markdown(known, sentences(known)).encode())


def _show(result: Result, console: Console) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from legs.experiments.speed.summary import TRAIN, sentences
    from legs.experiments.speed.tables import limits_line, machine_line, screen_tables

    known = result.as_dict()
    console.print(machine_line(known), soft_wrap=True, markup=False)
    console.print(limits_line(known), soft_wrap=True, markup=False)
    for text in screen_tables(known):
        table = Table(title=text.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name, left in zip(text.columns, text.left, strict=True):
            table.add_column(name, justify="left" if left else "right", no_wrap=left)
        for row in text.rows:
            table.add_row(*(escape(cell) for cell in row))
        console.print(table)
    for line in sentences(known, [TRAIN]):
        console.print(f"- {line}", markup=False)
    for line in result.skipped:
        console.print(f"left out: {line}", soft_wrap=True, markup=False)
