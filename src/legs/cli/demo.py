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
from legs.io import contents, has_keys, one_writer, write_atomically

if TYPE_CHECKING:
    from legs.data import GraphDataset
    from legs.training import Fitted

MODELS = ("legs-fcn", "legs-fixed", "gcn", "baseline")
FILE = "demo.json"


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
    from legs.data import load
    from legs.training import TrainingOptions, fit

    console = Console()
    # Enough to see who is ahead, few enough for two minutes on two cores.
    options = TrainingOptions(max_epochs=30, validate_every=3, patience=15, lr=3e-3)
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
    with (
        one_writer(output, _is_demo),
        Progress(*columns, console=console, disable=not console.is_terminal) as bars,
    ):
        # One-hot atom types, as the paper's molecules have them.
        data, fitted = load("nci-5k", features="atoms", limit=limit), {}
        for model in MODELS:
            bar = bars.add_task(model, total=options.max_epochs)

            def show(row: dict[str, float], bar: TaskID = bar) -> None:
                bars.update(bar, completed=row["epoch"])

            fitted[model] = fit(data, model, options=options, directory=output / model, report=show)
        command = {"command": shlex.join(["legs", *sys.argv[1:]])}  # for the page
        write_atomically(output / FILE, f"{json.dumps(command)}\n".encode())
    _show(data, fitted, output, console)


def _is_demo(folder: Path) -> bool:
    names = {path.name for path in contents(folder)}
    return names <= set(MODELS) or has_keys(folder / FILE, ("command",))


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
