"""``legs reproduce``: the paper's tables and figures, with ours beside them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from legs.cli.engines import Address, EngineName, EngineOption, check_address
from legs.cli.progress import PlanBar
from legs.cli.progress import plan_lines as cell_lines
from legs.cli.train import Device

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Console
    from rich.table import Table

    from legs.experiments.outlook import PlanProgress
    from legs.experiments.page import Report

FOLDER = Path("legs-reproduce")
ASIDE = ("-o", "--output", "--reuse", "--minutes")  # options that change no number


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="An experiment; without one, all are listed.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small but real: minutes on two cores.")
    ] = False,
    datasets: Annotated[
        str | None,
        typer.Option(metavar="NAMES", show_default="all", help="Some data sets: MUTAG,PTC."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(metavar="NAMES", show_default="all", help="Some methods: legs-fcn,gcn."),
    ] = None,
    device: Annotated[
        Device, typer.Option(help="Where to train; auto takes a GPU if there is one.")
    ] = Device.auto,
    rotations: Annotated[
        int | None,
        typer.Option(min=1, show_default="the paper's nine", help="Models a test set."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Of partitions, weights and batches.")
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            show_default=f"{FOLDER}/NAME",
            help="Folder for the results; goes on if it exists.",
        ),
    ] = None,
    shuffle_labels: Annotated[
        bool, typer.Option("--shuffle-labels", help="Labels at random: all must fall to chance.")
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, show_default="no limit", help="Begin no cell after so many minutes."),
    ] = None,
    reuse: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Take finished cells with the same settings from another run; can be repeated.",
        ),
    ] = None,
    observed: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="For enzymes: observed exchanges between the six classes."
        ),
    ] = None,
    at_once: Annotated[
        int,
        typer.Option(min=1, help="Cells at a time, each in a process; they share the device."),
    ] = 1,
    engine: EngineOption = EngineName.local,
    address: Address = None,
) -> None:
    """Run an experiment of the paper and print its numbers with the paper's beside them.

    Cells that are finished are kept: the same command goes on after an interruption. Writes
    results.json, results.csv, results.md and the figures.
    """
    from legs.experiments.catalogue import check_name

    if name is None:
        _list()
        return
    check_name(name)
    check_address(engine, address)
    if engine is not EngineName.local and at_once > 1:
        raise ValueError("--at-once is for this machine; Ray does as many cells as it has room for")
    # Imported here: torch takes seconds, and `legs --help` must not.
    import torch
    from rich.console import Console

    from legs.experiments.catalogue import run
    from legs.experiments.request import Request

    chosen = device.value
    if device is Device.auto:
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
    request = Request(
        folder=output or FOLDER / (f"{name}-quick" if quick else name),
        quick=quick,
        datasets=_names(datasets, "--datasets"),
        models=_names(models, "--models"),
        device=chosen,
        rotations=rotations,
        seed=seed,
        shuffled=shuffle_labels,
        minutes=minutes,
        reuse=tuple(reuse or ()),
        observed=observed,
        command=_command(sys.argv[1:]),
        engine=engine.value,
        address=address,
        at_once=at_once,
    )
    console = Console(highlight=False)
    try:
        with _Shown(console) as progress:
            report = run(name, request, progress)
    except KeyboardInterrupt:
        typer.echo("legs: interrupted; the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    _show(report, console)


def _names(text: str | None, option: str) -> tuple[str, ...]:
    if text is None:
        return ()
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise ValueError(f"{option} takes names with commas between them; got {text!r}")
    return found


def _command(given: list[str]) -> str:
    """The command line for the record, without what changes no number: folders and minutes.

    >>> _command(["reproduce", "qm9", "-o", "x", "--reuse=y", "--minutes", "5", "--seed", "1"])
    'legs reproduce qm9 --seed 1'
    """
    kept, words = ["legs"], iter(given)
    for word in words:
        if word in ASIDE:
            next(words, None)  # its value
        elif word.partition("=")[0] not in ASIDE:
            kept.append(word)
    return shlex.join(kept)


def _list() -> None:
    from legs.experiments.catalogue import EXPERIMENTS

    width = max(map(len, EXPERIMENTS))
    for name, (_, words) in EXPERIMENTS.items():
        typer.echo(f"{name:<{width}}  {words}")
    typer.echo("legs reproduce NAME runs one; --quick takes minutes on two cores.")


class _Shown(PlanBar):
    """How far an experiment is, over all its cells; to be called with the facts."""

    def __call__(self, facts: PlanProgress) -> None:
        """Shows where the plan is."""
        self.show(facts.cells, facts.done + facts.part, plan_lines(facts))


def plan_lines(facts: PlanProgress) -> list[str]:
    """The facts in lines that fit beside a bar: which cell, how far it is, time left for all."""
    lines = [str(facts)]
    if facts.facts is None:
        lines.append("preparing")
    else:
        lines += cell_lines(facts.facts)[1:]
    return [*lines, facts.time_left] if facts.time_left else lines


def _show(report: Report, console: Console) -> None:
    from rich.measure import Measurement

    found = report.table
    table = _table(found, report.title)
    wide = console.options.update(width=1000)
    if Measurement.get(console, wide, table).maximum > console.width and "guess" in found:
        table = _table(found.drop(columns="guess"), report.title)  # it is in the files
    console.print(table)
    if "within 1" in found:
        console.print("within 1: one combined standard error; guess: the most frequent class")
    for note in report.notes:
        console.print(note, soft_wrap=True, markup=False)
    if report.files:
        names = ", ".join(path.name for path in report.files)
        console.print(f"{report.files[0].parent}/: {names}", soft_wrap=True, markup=False)


def _table(found: DataFrame, title: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(title),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    words = ("data", "method", "variant", "within 1")
    for name in found.columns:
        table.add_column(name, justify="left" if name in words else "right", no_wrap=True)
    for row in found.itertuples(index=False):
        table.add_row(*(escape(str(value)) for value in row))
    return table
