"""``legs reproduce``: the paper's tables and figures, run from a clone of the repository."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from legs.cli.options import Device


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Experiments; default: list them.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small but real: minutes on two cores.")
    ] = False,
    datasets: Annotated[
        str, typer.Option(metavar="NAMES", show_default="all", help="Such as MUTAG,PTC.")
    ] = "",
    models: Annotated[
        str, typer.Option(metavar="NAMES", show_default="all", help="Such as legs-fcn,gcn.")
    ] = "",
    device: Device = "auto",
    rotations: Annotated[
        int | None, typer.Option(min=1, show_default="the paper's", help="Models per test set.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Seed of folds, weights and batches.")
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the results; resumes."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, show_default="no limit", help="Start no new cell after.")
    ] = None,
    reuse: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Use finished cells from there."),
    ] = None,
    at_once: Annotated[
        int, typer.Option(min=1, help="Cells run in parallel, each in its own process.")
    ] = 1,
) -> None:
    """Run experiments of the paper and print their scores beside the paper's.

    Needs a clone of the repository. Finished cells are skipped: the same command resumes after an
    interruption, and with --minutes 0 it only writes the tables again.
    """  # fmt: skip
    roots = (Path(__file__).parents[3], Path.cwd())
    root = next((r for r in roots if (r / "reproduction" / "experiments.yaml").is_file()), None)
    if root is None:
        raise ValueError("legs reproduce needs a clone of the repository; run it in one")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    import_module("reproduction.command").main(
        names or [],
        output,
        device,
        quick=quick,
        datasets=_split(datasets),
        models=_split(models),
        rotations=rotations,
        seed=seed,
        minutes=minutes,
        reuse=tuple(reuse or ()),
        at_once=at_once,
    )


def _split(names: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, names.split(","))))
