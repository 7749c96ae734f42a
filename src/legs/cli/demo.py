"""``legs demo``: models of real molecules, end to end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from legs.cli.console import Console
    from legs.data import GraphDataset
    from legs.training import Fitted


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the runs; goes on if it exists.")
    ] = Path("legs-demo"),
    limit: Annotated[
        int | None,
        typer.Option(min=50, show_default="all", help="Read only the first LIMIT compounds."),
    ] = None,
) -> None:
    """Predict ten properties of real molecules, with LEGS and with others.

    Takes the NCI compounds inside RDKit's package, no download needed, and trains learned and
    fixed scattering, a GCN and a baseline that ignores bonds, in about two minutes on two cores.
    """
    # Imported here: torch and RDKit take seconds, and `legs --help` must not.
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from legs.cli.console import Console
    from legs.io import one_writer
    from legs.training.demo import is_demo, run

    console = Console(highlight=False)
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
    with (
        one_writer(output, is_demo),
        Progress(*columns, console=console, disable=not console.is_terminal) as bars,
    ):
        shown: dict[str, object] = {}

        def progress(model: str, epoch: int, epochs: int) -> None:
            if model not in shown:
                shown[model] = bars.add_task(model, total=epochs)
            bars.update(shown[model], completed=epoch)  # type: ignore[arg-type]

        data, fitted = run(output, limit, progress=progress)
        _note(output)
    _show(data, fitted, output, console)


def _note(folder: Path) -> None:
    """Keeps the command beside the runs, for the page."""
    import json
    import sys

    from legs.io import write_atomically
    from legs.training.demo import FILE

    known = {"command": shlex.join(["legs", *sys.argv[1:]])}
    write_atomically(folder / FILE, f"{json.dumps(known)}\n".encode())


def _show(data: GraphDataset, fitted: dict[str, Fitted], directory: Path, console: Console) -> None:
    from rich.table import Table

    train, _, test = next(iter(fitted.values())).split
    console.print(
        f"{len(data):,} NCI compounds from RDKit's package ({data.info.get('bad_rows', 0):,} lines "
        f"skipped: not readable), {len(train):,} to train, {len(test):,} to test"
    )
    table = Table(title=f"{len(data.target_names)} properties: {', '.join(data.target_names)}")
    table.add_column("model")
    for name in ("parameters", "test MSE, whitened", "R²", "seconds"):
        table.add_column(name, justify="right")
    baseline = next(iter(fitted.values())).scores["guess"]
    rows = [("mean predictor", 0, baseline, 0.0)]
    for model, each in fitted.items():
        rows.append((model, each.predictor.num_parameters(), each.scores["test"], each.seconds))
    for model, parameters, scores, seconds in rows:
        mse, r2 = (f"{scores[name]:.3f}" for name in ("whitened_mse", "r2"))
        table.add_row(model, f"{parameters:,}", mse, r2, f"{seconds:.0f}")
    console.print(table)
    console.print(f"Models, predictions and learning curves are in {directory}/")
    console.print("See it all on one page:")
    console.print(f"  legs report {shlex.quote(str(directory))}", soft_wrap=True, markup=False)
    console.print("Try next, with a file of your own:")
    console.print("  legs train molecules.csv --target activity -o my-run")
    console.print("  legs predict my-run new-molecules.csv -o predictions.csv")
