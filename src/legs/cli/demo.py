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
    from legs.data import GraphDataset
    from legs.training import Fitted


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

        data, fitted = run(output, limit, progress=progress)
        command = {"command": shlex.join(["legs", *sys.argv[1:]])}  # for the page
        write_atomically(output / FILE, f"{json.dumps(command)}\n".encode())
    _show(data, fitted, output, console)


def _show(data: GraphDataset, fitted: dict[str, Fitted], directory: Path, console: Console) -> None:
    train, _, test = next(iter(fitted.values())).split
    console.print(
        f"{len(data):,} NCI compounds from RDKit's package ({data.info.get('bad_rows', 0):,} lines "
        f"skipped: not readable), {len(train):,} to train, {len(test):,} to test"
    )
    columns = ("model", "parameters", "test MSE, standardized", "R²", "seconds")
    title = f"{len(data.target_names)} properties: {', '.join(data.target_names)}"
    table = make_table(*columns, title=title)
    rows = [("mean predictor", 0, next(iter(fitted.values())).scores["guess"], 0.0)]
    for model, each in fitted.items():
        rows.append((model, each.predictor.num_parameters(), each.scores["test"], each.seconds))
    for model, parameters, scores, seconds in rows:
        mse, r2 = (f"{scores[name]:.3f}" for name in ("whitened_mse", "r2"))
        table.add_row(model, f"{parameters:,}", mse, r2, f"{seconds:.0f}")
    console.print(table)
    console.echo(f"saved in   {directory}: models, predictions and learning curves")
    console.echo(f"page       legs report {shlex.quote(str(directory))}")
    console.echo("next       legs train molecules.csv --target activity -o my-run")
    console.echo("           legs predict my-run new-molecules.csv -o predictions.csv")
