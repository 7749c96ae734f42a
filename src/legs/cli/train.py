"""``legs train``: from a file to a model that is kept, with scores."""

from __future__ import annotations

import shlex
import sys
import warnings
from contextlib import ExitStack, nullcontext
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
    Settings,
    SmilesColumn,
    Symmetrize,
    counted,
    number,
    parse_settings,
    show_groups,
)

if TYPE_CHECKING:
    from legs.cli.console import Console
    from legs.data.dataset import GraphDataset
    from legs.training import Fitted


class Kind(StrEnum):
    """What is predicted."""

    classification = "classification"
    regression = "regression"


class Precision(StrEnum):
    """Of the numbers in training."""

    float32 = "float32"
    tf32 = "tf32"
    bfloat16 = "bfloat16"
    float64 = "float64"


def train(
    data: Data,
    run: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="RUN",
            help="Directory for the model, scores, losses and checkpoint. A run that was stopped "
            "resumes there with the same command.",
        ),
    ],
    model: Annotated[
        str, typer.Option(help="legs-fcn, legs-fixed, gcn, gin, …: a wrong name lists them.")
    ] = "legs-fcn",
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL", show_default="found", help="Column to predict; repeat it for several."
        ),
    ] = None,
    task: Annotated[
        Kind | None, typer.Option(show_default="found", help="What the targets are.")
    ] = None,
    smiles_column: SmilesColumn = None,
    id_column: IdColumn = None,
    features: Features = None,
    hydrogens: Hydrogens = False,
    symmetrize: Symmetrize = False,
    on_error: Bad = OnError.stop,
    limit: Annotated[
        int | None, typer.Option(min=1, show_default="all", help="Only the first graphs.")
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            help="random or scaffold (80/10/10, every class in proportion), or a split.json file."
        ),
    ] = "random",
    group_by: GroupBy = None,
    lr: Annotated[
        float, typer.Option(parser=number, metavar="FLOAT", help="Learning rate.")
    ] = 1e-3,
    batch_size: Annotated[int, typer.Option(help="Graphs in a batch.")] = 128,
    epochs: Annotated[int, typer.Option(help="At most so many epochs.")] = 1000,
    patience: Annotated[
        int, typer.Option(help="Stop after so many epochs without a better validation loss.")
    ] = 100,
    grad_clip: GradClip = None,
    balanced: Balanced = False,
    precision: Annotated[Precision, typer.Option(help="Of numbers.")] = Precision.float32,
    seed: Annotated[int, typer.Option(help="Of the split, weights and batches.")] = 0,
    settings: Settings = None,
    device: Annotated[Device, typer.Option(help="Where to train.")] = Device.auto,
    devices: Annotated[
        int,
        typer.Option(
            min=1, help="GPUs, or processes on CPUs, that share every batch; torchrun sets it too."
        ),
    ] = 1,
) -> None:
    """Train a model on a file of molecules or graphs, keep it, and score it on held-out graphs.

    Example: legs train molecules.csv --target soluble -o run
    """
    given = dict(locals())
    options = parse_settings(settings)
    # Imported here: torch takes seconds, and `legs train --help` must not.
    from legs.cli.console import Console
    from legs.cli.progress import Epochs
    from legs.data.loading import load_training
    from legs.io import check_outputs
    from legs.training import TrainingOptions, fit, joined
    from legs.training.distributed import launch, processes_to_start
    from legs.training.fit import choose_split
    from legs.training.methods import check_options
    from legs.training.runs import BAD_ROWS, CHECKPOINT, choose_device, run_directory

    check_options(model, options)
    training = TrainingOptions(
        lr=lr,
        batch_size=batch_size,
        max_epochs=epochs,
        patience=patience,
        clip=grad_clip,
        balanced=balanced,
        precision=precision.value,
        seed=seed,
    )
    check_outputs([run], [data, split])
    place = choose_device(device.value)
    if processes_to_start(place, devices) > 1:
        launch(devices, train, given)
        return
    with ExitStack() as stack:
        group = stack.enter_context(joined(place))
        # The others neither write nor speak.
        folder = stack.enter_context(nullcontext(run) if group.rank else run_directory(run))
        console = Console(highlight=False, quiet=group.rank > 0)
        with console.status(f"Reading {data}"):
            graphs = load_training(
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
        show_data(console, graphs, folder / BAD_ROWS)
        groups = show_groups(console, graphs, group_by)
        with warnings.catch_warnings():
            if group.rank:
                warnings.simplefilter("ignore")
            chosen = choose_split(graphs, split, seed, groups)
        try:
            with Epochs(console, epochs, model) as progress:
                fitted = fit(
                    graphs,
                    model,
                    chosen,
                    training,
                    model_options=options,
                    device=place,
                    directory=folder,
                    report=progress,
                    command=shlex.join(["legs", *sys.argv[1:]]),
                    group=group,
                    group_by=None,  # checked above
                )
        except KeyboardInterrupt:
            saved = (folder / CHECKPOINT).exists()
            again = "resumes from the checkpoint" if saved else "starts again"
            typer.echo(f"legs: interrupted; the same command {again}", err=True)
            raise typer.Exit(130) from None
    if fitted.state.epoch and not progress.last:
        _line(console, f"{folder} holds this run already; nothing was left to train")
    _show_scores(console, model, fitted)
    _show_places(console, folder, data, graphs)


def show_data(console: Console, data: GraphDataset, bad_file: Path) -> None:
    """Prints what was read, what of it is used, and what is predicted."""
    from legs.data.features.blocks import describe_features

    names = data.class_names if data.task == "classification" else data.target_names
    _line(console, f"data       {data.name}: {len(data):,} graphs, {data.num_nodes:,} nodes")
    _line(console, f"features   {describe_features(data)}")
    assert data.y is not None
    if data.task == "classification":
        counts = data.y.bincount(minlength=len(names)).tolist()
        shown = [f"{name} ({count:,})" for name, count in zip(names, counts, strict=True)]
        column = f" of {data.target_names[0]}" if data.target_names else ""
        _line(console, f"task       classification{column}: {_listed(shown)}")
    else:
        _line(console, f"task       regression: {_listed(names)}")
    skipped = len(data.info.get("bad", ()))
    if skipped:
        _line(console, f"skipped    {counted(skipped, 'row')}, listed in {bad_file}")


def _show_scores(console: Console, model: str, fitted: Fitted) -> None:
    from legs.cli.scores import score_table
    from legs.report.words import caveats

    parts = {name: len(part) for name, part in fitted.split._asdict().items()}
    console.print()
    test, baseline = fitted.scores.get("test", {}), fitted.scores.get("guess", {})
    said = caveats(test, baseline, parts["test"])
    if not parts["test"]:
        said = ["No test graphs: how good the model is on new graphs is unknown."]
    for line in said:
        _line(console, f"warning    {line[0].lower()}{line[1:-1]}")
    console.print(score_table(fitted.scores, parts))
    count = f"{fitted.predictor.num_parameters():,}"
    epochs = ""
    if fitted.state.epoch:
        epochs = f", best epoch {fitted.state.best_epoch} of {fitted.state.epoch}"
    _line(console, f"{model}: {count} parameters{epochs}, {_seconds(fitted.seconds)}")


def _show_places(console: Console, folder: Path, name: str, data: GraphDataset) -> None:
    run = shlex.quote(str(folder))
    _line(
        console,
        f"kept in    {folder}: model, scores (results.json), losses (metrics.csv), "
        "test_predictions.csv",
    )
    new = "new.csv" if data.smiles else shlex.quote(name)
    _line(console, f"next       legs predict {run} {new} -o out.csv")
    _line(console, f"page       legs report {run}")


def _listed(names: tuple[str, ...] | list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _line(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, markup=False)
