"""``legs train``: from a file to a model that is kept, with scores."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from legs.cli.choices import (
    Bad,
    Data,
    IdColumn,
    OnError,
    Settings,
    SmilesColumn,
    counted,
    parse_settings,
)

if TYPE_CHECKING:
    from rich.console import Console

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


class Device(StrEnum):
    """Where to train."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def train(
    data: Data,
    run: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="RUN",
            help="Directory for the model, scores, losses and checkpoint. A run that was stopped "
            "goes on there with the same command.",
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
    features: Annotated[
        str | None,
        typer.Option(
            metavar="BLOCKS",
            show_default="what suits the data",
            help="Node features, such as structure, atoms or chem+structure.",
        ),
    ] = None,
    hydrogens: Annotated[bool, typer.Option("--hydrogens", help="Make hydrogens nodes.")] = False,
    symmetrize: Annotated[
        bool, typer.Option("--symmetrize", help="Take directed edges as undirected ones.")
    ] = False,
    on_error: Bad = OnError.stop,
    limit: Annotated[
        int | None, typer.Option(min=1, show_default="all", help="Only the first graphs.")
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            help="random (80/10/10, stratified by class), scaffold, or a split.json file."
        ),
    ] = "random",
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    batch_size: Annotated[int, typer.Option(help="Graphs in a batch.")] = 128,
    epochs: Annotated[int, typer.Option(help="At most so many epochs.")] = 1000,
    patience: Annotated[
        int, typer.Option(help="Stop after so many epochs without a better validation loss.")
    ] = 100,
    clip: Annotated[
        float | None, typer.Option(show_default="none", help="Largest norm of the gradient.")
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Rare classes weigh more in the loss.")
    ] = False,
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
    from rich.console import Console

    from legs.cli.progress import Epochs
    from legs.training import TrainingOptions, fit, joined
    from legs.training.launching import launch, processes_to_start
    from legs.training.raw_input import read_training, write_bad_rows
    from legs.training.runs import (
        BAD_ROWS,
        CHECKPOINT,
        check_options,
        choose_device,
        choose_split,
        run_directory,
    )

    check_options(model, options)
    training = TrainingOptions(
        lr=lr,
        batch_size=batch_size,
        max_epochs=epochs,
        patience=patience,
        clip=clip,
        balanced=balanced,
        precision=precision.value,
        seed=seed,
    )
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
            graphs = read_training(
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
        _show_data(console, graphs)
        bad = graphs.info.get("bad", ())
        if bad and not group.rank:
            write_bad_rows(folder / BAD_ROWS, bad)
            _line(console, f"skipped    {counted(len(bad), 'row')}, listed in {folder / BAD_ROWS}")
        chosen = choose_split(graphs, split, seed)
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
                )
        except KeyboardInterrupt:
            again = (
                "goes on from the checkpoint" if (folder / CHECKPOINT).exists() else "starts anew"
            )
            typer.echo(f"legs: interrupted; the same command {again}", err=True)
            raise typer.Exit(130) from None
    if fitted.state.epoch and not progress.last:
        _line(console, f"{folder} holds this run already; nothing was left to train")
    _show_scores(console, model, fitted)
    _show_places(console, folder, data, graphs)


def _show_data(console: Console, data: GraphDataset) -> None:
    blocks = "+".join(data.info.get("features", ()))
    names = data.class_names if data.task == "classification" else data.target_names
    _line(console, f"data       {data.name}: {len(data):,} graphs, {data.num_nodes:,} nodes")
    _line(console, f"features   {blocks}: {data.in_channels} a node")
    assert data.y is not None
    if data.task == "classification":
        counts = data.y.bincount(minlength=len(names)).tolist()
        shown = [f"{name} ({count:,})" for name, count in zip(names, counts, strict=True)]
        column = f" of {data.target_names[0]}" if data.target_names else ""
        _line(console, f"task       classification{column}: {_listed(shown)}")
    else:
        _line(console, f"task       regression: {_listed(names)}")


def _show_scores(console: Console, model: str, fitted: Fitted) -> None:
    from legs.cli.scores import score_table

    parts = {name: len(part) for name, part in fitted.split._asdict().items()}
    console.print()
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
