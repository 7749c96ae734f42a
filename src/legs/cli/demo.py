"""``legs demo``: scattering of real molecules, end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from legs.experiments.demo import Demo


def demo(
    limit: Annotated[
        int | None,
        typer.Option(min=20, show_default="all", help="Read only the first LIMIT compounds."),
    ] = None,
) -> None:
    """Predict properties of real molecules from their geometric scattering.

    Takes the NCI compounds inside RDKit's package, computes fixed geometric scattering of their
    graphs (node signal: one-hot atom types), and fits a ridge regression of seven properties.
    """
    # Imported here: torch and RDKit take seconds, and `legs --help` must not.
    from legs.experiments.demo import run

    _show(run(limit))


def _show(result: Demo) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(
        f"{result.compounds:,} NCI compounds from RDKit's package "
        f"({result.skipped:,} lines skipped: not readable)"
    )
    console.print(
        f"{result.features:,} scattering features a molecule, in {result.scattering_seconds:.1f} s"
    )
    table = Table(
        title=f"Ridge regression: {result.train:,} compounds to fit, {result.test:,} to test"
    )
    table.add_column("property")
    table.add_column("RMSE, mean predictor", justify="right")
    table.add_column("RMSE, ridge on scattering", justify="right")
    table.add_column("R²", justify="right")
    for score in result.scores:
        table.add_row(
            score.name, f"{score.mean_rmse:.3g}", f"{score.ridge_rmse:.3g}", f"{score.r2:.3f}"
        )
    console.print(table)
