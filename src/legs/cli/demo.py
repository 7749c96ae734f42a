"""``legs demo``: models of real molecules, end to end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from legs.cli.console import Console
    from legs.training.demo import Demo


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

        result = run(output, limit, progress=progress)
        _note(result.directory)
    _show(result, console)


def _note(folder: Path) -> None:
    """Keeps the command beside the runs, for the page."""
    import json
    import sys

    from legs.io import write_atomically
    from legs.training.demo import FILE

    known = {"command": shlex.join(["legs", *sys.argv[1:]])}
    write_atomically(folder / FILE, f"{json.dumps(known)}\n".encode())


def _show(result: Demo, console: Console) -> None:
    from rich.table import Table

    console.print(
        f"{result.molecules:,} NCI compounds from RDKit's package ({result.skipped:,} lines "
        f"skipped: not readable), {result.train:,} to train, {result.test:,} to test"
    )
    table = Table(title=f"{len(result.targets)} properties: {', '.join(result.targets)}")
    table.add_column("model")
    for name in ("parameters", "test MSE, whitened", "R²", "seconds"):
        table.add_column(name, justify="right")
    for row in (result.guess, *result.rows):
        table.add_row(
            row.model,
            f"{row.parameters:,}",
            f"{row.whitened_mse:.3f}",
            f"{row.r2:.3f}",
            f"{row.seconds:.0f}",
        )
    console.print(table)
    console.print(f"Models, predictions and learning curves are in {result.directory}/")
    console.print("See it all on one page:")
    console.print(
        f"  legs report {shlex.quote(str(result.directory))}", soft_wrap=True, markup=False
    )
    console.print("Try next, with a file of your own:")
    console.print("  legs train molecules.csv --target activity -o my-run")
    console.print("  legs predict my-run new-molecules.csv -o predictions.csv")
