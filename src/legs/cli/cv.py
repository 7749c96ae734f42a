"""``legs cv``: the paper's protocol on any data set."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from legs.cli.choices import (
    Bad,
    Balanced,
    Data,
    Device,
    Features,
    GradClip,
    GroupBy,
    Hydrogens,
    IdColumn,
    OnError,
    SmilesColumn,
    Symmetrize,
    number,
    show_groups,
)
from legs.cli.engines import Address, EngineName, EngineOption, check_address, spread_over
from legs.cli.train import Kind, show_data

if TYPE_CHECKING:
    from legs.cli.console import Console
    from legs.training.cv.cross_validation import CVResult


class SplitKind(StrEnum):
    """How rows are divided."""

    random = "random"
    scaffold = "scaffold"


class Strategy(StrEnum):
    """How many models are trained."""

    auto = "auto"
    stacked = "stacked"
    sequential = "sequential"


def cv(
    data: Data,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="A method; repeat it to compare several.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder for the results; a stopped run resumes there."),
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="Column(s) to predict.")] = None,
    task: Annotated[
        Kind | None, typer.Option(show_default="found", help="What is predicted.")
    ] = None,
    smiles_column: SmilesColumn = None,
    id_column: IdColumn = None,
    features: Features = None,
    hydrogens: Hydrogens = False,
    symmetrize: Symmetrize = False,
    on_error: Bad = OnError.stop,
    folds: Annotated[int, typer.Option(min=3, help="Partitions.")] = 10,
    rotations: Annotated[
        int | None, typer.Option(min=1, show_default="all", help="Models per test set.")
    ] = None,
    test_folds: Annotated[int, typer.Option(min=1, help="Partitions in a test set.")] = 1,
    num_splits: Annotated[int, typer.Option(min=1, help="Random splits, for regression.")] = 4,
    split: Annotated[
        SplitKind,
        typer.Option(help="Rows at random, or molecules with the same ring system together."),
    ] = SplitKind.random,
    group_by: GroupBy = None,
    splits: Annotated[
        Path | None, typer.Option(help="Your own splits: JSON, one entry per fold.")
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
    lr: Annotated[
        float, typer.Option(parser=number, metavar="FLOAT", help="Learning rate.")
    ] = 1e-3,
    batch_size: Annotated[int, typer.Option(min=1, help="Graphs in a batch.")] = 128,
    patience: Annotated[int, typer.Option(min=1, help="Epochs without a better loss.")] = 100,
    grad_clip: GradClip = None,
    balanced: Balanced = False,
    seed: Annotated[int, typer.Option(help="Of partitions, weights and batches.")] = 0,
    strategy: Annotated[
        Strategy,
        typer.Option(help="Train models at once, one after another, or as is faster in a trial."),
    ] = Strategy.auto,
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
    from legs.cli.console import Console
    from legs.cli.progress import Plan
    from legs.cli.tuning import parse_grid
    from legs.data.errors import write_bad_rows
    from legs.data.loading import load_training
    from legs.data.splits import load_splits
    from legs.io import check_outputs, one_writer
    from legs.training import TrainingOptions
    from legs.training.cv.cross_validation import cross_validate
    from legs.training.cv.protocol import CVOptions, check_grid
    from legs.training.cv.store import is_store
    from legs.training.cv.tables import write_results
    from legs.training.runs import BAD_ROWS, choose_device
    from legs.training.shown import write_cv_shown

    check_address(engine, address)
    place = choose_device(device.value)
    if splits is not None and split is SplitKind.scaffold:
        raise ValueError("--split scaffold and --splits exclude each other")
    methods = model or ["legs-fcn"]
    settings = parse_grid(grid, tune)
    check_grid(methods, settings)
    console = Console(highlight=False)
    loaded = load_training(
        data,
        features=features,
        target=target or None,
        task=None if task is None else task.value,
        smiles_column=smiles_column,
        id_column=id_column,
        hydrogens=hydrogens or None,
        directed="symmetrize" if symmetrize else None,
        on_error=on_error.value,
        limit=limit,
    )
    options = CVOptions(
        folds=folds,
        rotations=rotations,
        test_folds=test_folds,
        seeds=tuple(range(seed * num_splits, (seed + 1) * num_splits)),
        training=TrainingOptions(
            lr=lr,
            max_epochs=epochs,
            batch_size=batch_size,
            patience=patience,
            clip=grad_clip,
            balanced=balanced,
            seed=seed,
        ),
        grid=settings,
    )
    folder = output or Path("legs-cv") / loaded.name
    check_outputs([folder], [data])
    show_data(console, loaded, folder / BAD_ROWS)
    groups = show_groups(console, loaded, group_by)
    try:
        with one_writer(folder, is_store):
            with Plan(console) as progress, spread_over(engine, address) as workers:
                result = cross_validate(
                    loaded,
                    methods,
                    options,
                    splits=load_splits(splits, len(loaded)) if splits else split.value,
                    group_by=groups,
                    directory=folder,
                    device=place,
                    strategy=strategy.value,
                    progress=progress,
                    engine=workers,
                )
            write_results(result, folder, command=shlex.join(["legs", *sys.argv[1:]]))
            write_cv_shown(folder, result)
            if bad := loaded.info.get("bad"):
                write_bad_rows(folder / BAD_ROWS, bad)
    except KeyboardInterrupt:
        typer.echo("legs: interrupted; the same command resumes", err=True)
        raise typer.Exit(130) from None
    _show(result, console)
    console.print(
        f"Every fold's score and every graph's prediction are in {folder}/",
        soft_wrap=True,
        markup=False,
    )
    run = shlex.quote(str(folder))
    console.print(f"See it on one page: legs report {run}", soft_wrap=True, markup=False)


def _show(result: CVResult, console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    from legs.training.cv.tables import choices, comparisons, summary

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
    for line in _caveats(result):
        console.print(f"warning    {line[0].lower()}{line[1:-1]}", soft_wrap=True, markup=False)
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


def _caveats(result: CVResult) -> list[str]:
    import numpy as np

    from legs.report.words import baseline_name, few_words

    classes = result.data.task == "classification"
    sign = 1 if classes else -1
    base = sign * float(np.mean(result.baseline))
    lost = [m.method for m in result.methods if sign * m.mean <= base]
    found = few_words(
        float(np.mean([len(group[0].test) for group in result.splits])), "a test set has about"
    )
    if lost:
        verb = "is" if len(lost) == 1 else "are"
        found.insert(0, f"{', '.join(lost)} {verb} no better than {baseline_name(classes)}.")
    return found
