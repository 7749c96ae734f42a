"""``legs train``: from a file to a saved model with scores."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from legs.cli import options as opt
from legs.cli.console import Console, Epochs, candidate_table, score_table
from legs.io import check_outputs

if TYPE_CHECKING:
    from legs.data.dataset import GraphDataset
    from legs.data.splits import Indices
    from legs.training import Fitted


@opt.expand_options
def train(
    data: opt.Data,
    run: Annotated[Path, opt.output("RUN", "Directory for model, scores and checkpoint.")],
    *,
    model: Annotated[
        str | None,
        Option(
            help="Such as auto, legs-deep, forest or gin; a wrong name lists all.",
            show_default="auto for files of molecules, else legs-fcn",
        ),
    ] = None,
    settings: opt.Settings = None,
    reading: opt.DataOptions,
    split: Annotated[
        str, Option(help="random or scaffold (80/10/10, stratified by class), or a JSON file.")
    ] = "random",
    group_by: opt.GroupBy = None,
    loop: opt.LoopOptions,
    metric: Annotated[
        str | None,
        Option(
            help="Validation score that decides when a network stops, such as roc_auc or mae:T.",
            show_default="the loss",
        ),
    ] = None,
    precision: Annotated[opt.Precision, Option(help="Precision of training.")] = "float32",
    device: opt.Device = "auto",
    devices: Annotated[
        int,
        Option(min=1, help="GPUs or CPU processes that share each batch; torchrun sets it too."),
    ] = 1,
) -> None:
    """Train a model on a file of molecules or graphs, save it, and score it on held-out graphs.

    For molecules the default is auto: networks, a Gaussian process and trees, blended, in
    about a minute per 1,000 molecules (--set minutes=5: in at most five). The same command resumes
    an interrupted run.

    Example: legs train molecules.csv --target soluble -o run
    """
    arguments = dict(locals())
    model_options = opt.parse_settings(settings)
    if reading.split_column:
        if split != "random":
            raise opt.UsageError("--split and --split-column exclude each other")
        split = "column"
    from legs.training import TrainingOptions, fit, joined
    from legs.training.distributed import launch, processes_to_start
    from legs.training.methods import BLENDS, check_options
    from legs.training.runs import BAD_ROWS, CHECKPOINT, choose_device, run_directory, run_method

    if model is not None:
        check_options(model, model_options)
    training = TrainingOptions(precision=precision, metric=metric, **vars(loop))
    check_outputs([run], [data, split])
    place = choose_device(device)
    if processes_to_start(place, devices) > 1:
        launch(devices, train, arguments)
        return
    # Only the first process writes and prints.
    with joined(place) as group, nullcontext(run) if group.rank else run_directory(run) as folder:
        console = Console(quiet=group.rank > 0)
        with console.status(f"Reading {data}"):
            graphs = reading.load(data)
        groups = show_data(console, graphs, group_by, folder / BAD_ROWS)
        if model is None:
            molecules = bool(graphs.smiles) and all(graphs.smiles) and not graphs.info.get("named")
            own = set(model_options) <= {"minutes"} and group.size == 1  # else of a network
            usual = "auto" if molecules and own else "legs-fcn"
            model = run_method(folder) or usual
            check_options(model, model_options)
        try:
            steps: tuple[int, str, str] = (loop.max_epochs, model, "epoch")
            if model in BLENDS:
                steps = (len(BLENDS[model]), model, "candidate")
            with warnings.catch_warnings(), Epochs(console, *steps) as progress:
                if group.rank:
                    warnings.simplefilter("ignore")
                fitted = fit(
                    graphs,
                    model,
                    split,
                    training,
                    model_options=model_options,
                    device=place,
                    directory=folder,
                    report=progress,
                    command=opt.command_line(),
                    group=group,
                    group_by=groups,
                )
        except KeyboardInterrupt:
            saved = any(folder.glob(f"*{CHECKPOINT}"))
            then = "resumes from the checkpoint" if saved else "starts again"
            raise opt.interrupted(then) from None
    if fitted.state.epoch and not progress.last:
        console.echo(f"{folder} holds this run already; nothing was left to train")
    _show_scores(console, model, fitted)
    console.echo(f"saved in   {folder}: model, results.json, metrics.csv, test_predictions.csv")
    new = "new.csv" if graphs.smiles else shlex.quote(data)
    console.echo(f"next       legs predict {shlex.quote(str(folder))} {new} -o out.csv")
    console.echo(f"page       legs report {shlex.quote(str(folder))}")


def show_data(
    console: Console, data: GraphDataset, group_by: opt.GroupBy, bad_file: Path
) -> Indices | None:
    """Prints what was read, and returns the group of every row; ``None`` if there are none."""
    from legs.data.features.blocks import describe_features
    from legs.data.splits import describe_groups, find_groups

    console.echo(f"data       {data.name}: {len(data):,} graphs, {data.num_nodes:,} nodes")
    console.echo(f"features   {describe_features(data)}")
    names: Sequence[str] = data.target_names
    column = ""
    if data.task == "classification":
        assert data.y is not None
        counts = data.y.bincount(minlength=len(data.class_names)).tolist()
        column = f" of {names[0]}" if names else ""
        names = [f"{name} ({n:,})" for name, n in zip(data.class_names, counts, strict=True)]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    console.echo(f"task       {data.task}{column}: {', '.join(names[:8])}{more}")
    if skipped := len(data.info.get("bad", ())):
        console.echo(f"skipped    {opt.counted(skipped, 'row')}, listed in {bad_file}")
    if salts := data.info.get("salts"):
        console.echo(f"salts      {opt.describe_salts(salts)}; --keep-salts keeps them whole")
    groups = find_groups(data, None if group_by == "none" else group_by or "auto")
    if groups is not None:
        console.echo(f"groups     {describe_groups(groups)}")
    return groups


def _show_scores(console: Console, model: str, fitted: Fitted) -> None:
    from legs.report.words import caveats, duration

    sizes = {name: len(part) for name, part in fitted.split._asdict().items()}
    test, baseline = fitted.scores.get("test", {}), fitted.scores.get("guess", {})
    warned = caveats(test, baseline, sizes["test"])
    if not sizes["test"]:
        warned = ["No test graphs: how good the model is on new graphs is unknown."]
    console.print()
    console.warn(warned)
    console.print(score_table(fitted.scores, sizes))
    if candidates := getattr(fitted.predictor.answerer, "candidates", None):
        console.print(candidate_table(candidates))
    widths = fitted.predictor.half_widths
    for name, half in zip(fitted.predictor.task.names, widths, strict=False):
        if half is not None and len(widths) <= 8:
            console.echo(f"interval   {name}: ±{half:.3g} holds 90 % of new values")
    if fitted.coverage is not None:
        console.echo(f"coverage   {fitted.coverage:.0%} of test values are in their intervals")
    state = fitted.state
    epochs = f", best epoch {state.best_epoch} of {state.epoch}" if state.epoch else ""
    time = duration(fitted.seconds)
    console.echo(f"{model}: {fitted.predictor.num_parameters():,} parameters{epochs}, {time}")
