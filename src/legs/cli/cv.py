"""``legs cv``: the paper's protocol on any data set."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from legs.cli.choices import Data
from legs.cli.engines import Address, EngineName, EngineOption, check_address, spread_over
from legs.cli.train import Device, Kind

if TYPE_CHECKING:
    from rich.console import Console

    from legs.training.cross_validation import CVResult


class Way(StrEnum):
    """How many models are trained."""

    auto = "auto"
    stacked = "stacked"
    single = "single"


def cv(
    data: Data,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="A method; repeat it to compare several.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder for the results; goes on if it exists."),
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="Column(s) to predict.")] = None,
    task: Annotated[
        Kind | None, typer.Option(show_default="found", help="What is predicted.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="Node features, e.g. structure+labels.")
    ] = None,
    folds: Annotated[int, typer.Option(min=3, help="Partitions.")] = 10,
    rotations: Annotated[
        int | None, typer.Option(min=1, show_default="all", help="Models a test set.")
    ] = None,
    test_folds: Annotated[int, typer.Option(min=1, help="Partitions in a test set.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="Random splits, for regression.")] = 4,
    splits: Annotated[
        Path | None, typer.Option(help="Your own splits: JSON, one entry a fold.")
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(help='Settings to choose from on validation loss: JSON, e.g. [{"lr": 0.01}].'),
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,VALUE",
            help="Values to choose from on validation loss, of lr or an option of the network, "
            "such as lr=0.001,0.003 or dropout=0,0.5; repeat it for all combinations.",
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="At most so many epochs.")] = 1000,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    batch_size: Annotated[int, typer.Option(min=1, help="Graphs in a batch.")] = 128,
    patience: Annotated[int, typer.Option(min=1, help="Epochs without a better loss.")] = 100,
    seed: Annotated[int, typer.Option(help="Of partitions, weights and batches.")] = 0,
    way: Annotated[Way, typer.Option(help="All at once, one by one, or the faster.")] = Way.auto,
    device: Annotated[
        Device, typer.Option(help="Where to train; auto takes a GPU if there is one.")
    ] = Device.auto,
    limit: Annotated[
        int | None, typer.Option(min=20, help="Use only the first LIMIT graphs.")
    ] = None,
    engine: EngineOption = EngineName.local,
    address: Address = None,
) -> None:
    """Cross-validate methods by the paper's protocol, on the same partitions for all.

    Ten stratified partitions; for each test set nine models, each validated on another partition;
    majority vote; mean ± deviation over the test sets. Numbers: random splits, mean squared error.
    """
    # Imported here: torch takes seconds, and `legs cv --help` must not.
    from rich.console import Console

    from legs.cli.progress import Plan
    from legs.cli.tuning import parse_grid
    from legs.data import load
    from legs.data.splits import load_splits
    from legs.training import TrainingOptions
    from legs.training.cross_validation import cross_validate
    from legs.training.cv_grid import check_grid
    from legs.training.cv_plan import CVOptions
    from legs.training.cv_tables import write_results
    from legs.training.shown_cv import write_cv_shown

    check_address(engine, address)
    methods = model or ["legs-fcn"]
    settings = parse_grid(grid, tune)
    check_grid(methods, settings)
    console = Console(highlight=False)
    loaded = load(
        data, target=target, task=task.value if task else None, features=features, limit=limit
    )
    options = CVOptions(
        folds=folds,
        rotations=rotations,
        test_folds=test_folds,
        seeds=tuple(range(seeds)),
        training=TrainingOptions(
            lr=lr, max_epochs=epochs, batch_size=batch_size, patience=patience, seed=seed
        ),
        grid=settings,
    )
    folder = output or Path("legs-cv") / loaded.name
    try:
        with Plan(console) as progress, spread_over(engine, address) as workers:
            result = cross_validate(
                loaded,
                methods,
                options,
                splits=load_splits(splits, len(loaded)) if splits else None,
                directory=folder,
                device=_device(device.value),
                way=way.value,
                progress=progress,
                engine=workers,
            )
    except KeyboardInterrupt:
        typer.echo("legs: interrupted; the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    write_results(result, folder, command=shlex.join(["legs", *sys.argv[1:]]))
    write_cv_shown(folder, result)
    _show(result, console)
    console.print(
        f"Every fold's score and every graph's prediction are in {folder}/",
        soft_wrap=True,
        markup=False,
    )
    run = shlex.quote(str(folder))
    console.print(f"See it on one page: legs report {run}", soft_wrap=True, markup=False)


def _device(name: str) -> str:
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def _show(result: CVResult, console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    from legs.training.cv_tables import choices, comparisons, summary

    score = "accuracy, %" if result.data.task == "classification" else "MSE, whitened"
    table = Table(title=f"{result.data.name}: {len(result.splits)} test sets")
    for name in ("method", score, "models", "parameters", "seconds", "trained"):
        table.add_column(name, justify="left" if name in ("method", "trained") else "right")
    digits = 2 if result.data.task == "classification" else 4
    for row in summary(result).itertuples():
        table.add_row(
            str(row.method),
            f"{row.mean:.{digits}f} ± {row.std:.{digits}f}",
            f"{row.models:,}",
            f"{row.parameters:,}",
            f"{row.seconds:.0f}",
            str(row.trained),
        )
    console.print(table)
    chosen = choices(result)
    if len(chosen):
        table = Table("method", "setting", "test sets", title="Chosen on validation loss")
        for name, setting, sets in chosen.itertuples(index=False):
            table.add_row(name, escape(setting), sets)
        console.print(table)
    for row in comparisons(result).itertuples():
        console.print(
            f"{row.first} - {row.second}: {row.difference:+.{digits}f}, p = {row.p:.3f} "
            "(corrected resampled t-test)"
        )
