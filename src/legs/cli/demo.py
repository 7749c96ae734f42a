"""``legs demo``: models of real molecules, end to end."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from legs.cli.console import Console, make_table
from legs.io import one_writer, write_atomically

if TYPE_CHECKING:
    from legs.training.demo import Demo


def demo(
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="Folder for the runs; resumes if it exists."
        ),
    ] = Path("legs-demo"),
    limit: Annotated[
        int | None,
        typer.Option(min=50, show_default="all", help="Read only the first LIMIT compounds."),
    ] = None,
) -> None:
    """Predict ten properties of real molecules, with LEGS and other models.

    Reads the NCI compounds inside RDKit's package, no download needed, and trains learned and
    fixed scattering, a GCN and a baseline that ignores bonds, in about two minutes on two cores.
    """
    # Imported here: torch and RDKit take seconds, and `legs --help` must not.

    from legs.training.demo import FILE, is_demo, run

    console = Console()
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
    with (
        one_writer(output, is_demo),
        Progress(*columns, console=console, disable=not console.is_terminal) as bars,
    ):
        tasks: dict[str, TaskID] = {}

        def progress(model: str, epoch: int, epochs: int) -> None:
            if model not in tasks:
                tasks[model] = bars.add_task(model, total=epochs)
            bars.update(tasks[model], completed=epoch)

        result = run(output, limit, progress=progress)
        command = {"command": shlex.join(["legs", *sys.argv[1:]])}  # for the page
        write_atomically(result.directory / FILE, f"{json.dumps(command)}\n".encode())
    _show(result, console)


def _show(result: Demo, console: Console) -> None:
    console.print(
        f"{result.molecules:,} NCI compounds from RDKit's package ({result.skipped:,} lines "
        f"skipped: not readable), {result.train:,} to train, {result.test:,} to test"
    )
    columns = ("model", "parameters", "test MSE, standardized", "R²", "seconds")
    title = f"{len(result.targets)} properties: {', '.join(result.targets)}"
    table = make_table(*columns, title=title)
    for row in (result.guess, *result.rows):
        scores = (f"{row.whitened_mse:.3f}", f"{row.r2:.3f}", f"{row.seconds:.0f}")
        table.add_row(row.model, f"{row.parameters:,}", *scores)
    console.print(table)
    console.echo(f"saved in   {result.directory}: models, predictions and learning curves")
    console.echo(f"page       legs report {shlex.quote(str(result.directory))}")
    console.echo("next       legs train molecules.csv --target activity -o my-run")
    console.echo("           legs predict my-run new-molecules.csv -o predictions.csv")
