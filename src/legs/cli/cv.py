"""``legs cv``: the paper's protocol on any data set."""

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.text import Text
from typer import Option

from legs.cli import options as opt
from legs.cli.console import Console, Plan, make_table
from legs.cli.train import show_data
from legs.io import check_outputs, one_writer

if TYPE_CHECKING:
    from legs.training.cv.results import CVResult


@opt.expand_options
def cv(
    data: opt.Data,
    *,
    model: Annotated[
        list[str] | None, Option(show_default="legs-fcn", help="Method; repeat to compare several.")
    ] = None,
    output: Annotated[Path | None, opt.output("FOLDER", "Results; default: legs-cv/NAME.")] = None,
    reading: opt.DataOptions,
    folds: Annotated[int, Option(min=3, help="Number of folds.")] = 10,
    rotations: Annotated[int | None, Option(min=1, help="Models that vote per test set.")] = None,
    test_folds: Annotated[int, Option(min=1, help="Folds per test set.")] = 1,
    num_splits: Annotated[int, Option(min=1, help="Random splits, for regression.")] = 4,
    split: Annotated[
        Literal["random", "scaffold"], Option(help="Split at random or by scaffold.")
    ] = "random",
    group_by: opt.GroupBy = None,
    splits: Annotated[Path | None, Option(metavar="FILE", help="Your own splits, as JSON.")] = None,
    grid: Annotated[
        str | None, Option(metavar="JSON", help='Settings to try, as [{"lr": 0.01}, {"lr": 0.1}].')
    ] = None,
    tune: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE,VALUE", help="Values to try, e.g. lr=0.001,0.003; can be repeated."
        ),
    ] = None,
    metric: Annotated[
        str | None, Option(help="Choose by this validation score, such as roc_auc, not by loss.")
    ] = None,
    loop: opt.LoopOptions,
    strategy: Annotated[
        Literal["auto", "stacked", "sequential"],
        Option(help="Train models together or one after another; auto: together on GPUs."),
    ] = "auto",
    device: opt.Device = "auto",
    engine: opt.Engine = "local",
    address: opt.Address = None,
) -> None:
    """Cross-validate methods by the paper's protocol, all on the same splits.

    Classification: ten stratified folds; for each test fold nine models, each validated on another
    fold, vote; accuracy is the mean ± standard deviation over the test folds. Regression: random
    splits, mean squared error.

    With --grid or --tune (all combinations), settings of lr and of the model's options are chosen
    by validation loss, or --metric, for each test set. The same command resumes an interrupted
    run.

    The FILE of --splits is a list of {"train": [0, 1, …], "validation": […], "test": […]} in JSON.
    """
    from legs.data.errors import write_bad_rows
    from legs.data.splits import load_splits
    from legs.engine import open_engine
    from legs.training import TrainingOptions, default_split
    from legs.training.cv.cross_validation import cross_validate
    from legs.training.cv.protocol import CVOptions, check_grid
    from legs.training.cv.results import write_results
    from legs.training.cv.store import is_store
    from legs.training.runs import BAD_ROWS, choose_device
    from legs.training.shown import write_cv_shown

    opt.check_address(engine, address)
    if (splits is not None) + (split == "scaffold") + bool(reading.split_column) > 1:
        raise opt.UsageError("choose one of --split scaffold, --split-column and --splits")
    place = choose_device(device)
    methods, settings = model or ["legs-fcn"], opt.parse_grid(grid, tune)
    check_grid(methods, settings)
    options = CVOptions(
        folds=folds,
        rotations=rotations,
        test_folds=test_folds,
        seeds=tuple(range(loop.seed * num_splits, (loop.seed + 1) * num_splits)),
        training=TrainingOptions(**vars(loop)),
        grid=settings,
    )
    console = Console()
    with console.status(f"Reading {data}"):
        graphs = reading.load(data)
    folder = output or Path("legs-cv") / graphs.name
    check_outputs([folder], [data])
    groups = show_data(console, graphs, group_by, folder / BAD_ROWS)
    own: Any = load_splits(splits, len(graphs)) if splits else split
    if reading.split_column:
        own = [default_split(graphs, loop.seed, kind="column", group_by=groups)]
    # Without a cluster, cross_validate trains in this process.
    workers = nullcontext() if engine == "local" else open_engine(engine, address)
    try:
        with one_writer(folder, is_store):
            with Plan(console) as progress, workers as cluster:
                result = cross_validate(
                    graphs,
                    methods,
                    options,
                    splits=own,
                    group_by=groups,
                    directory=folder,
                    device=place,
                    strategy=strategy,
                    progress=progress,
                    engine=cluster,
                    metric=metric,
                )
            write_results(result, folder, command=opt.command_line())
            write_cv_shown(folder, result)
            if bad := graphs.info.get("bad"):
                write_bad_rows(folder / BAD_ROWS, bad)
    except KeyboardInterrupt:
        raise opt.interrupted("resumes") from None
    _show(result, console)
    console.echo(f"saved in   {folder}: the score of every fold, the prediction of every graph")
    console.echo(f"page       legs report {shlex.quote(str(folder))}")


def _show(result: "CVResult", console: Console) -> None:
    from legs.report.words import baseline_name, few_words, score_name
    from legs.training.cv.results import choices, comparisons, metric_table, summary

    classes = result.data.task == "classification"
    score, digits, sign = ("accuracy, %", 2, 1) if classes else ("MSE, standardized", 4, -1)
    if result.data.task == "multilabel":
        score, digits, sign = "mean AP, %", 2, 1
    rows: list[Any] = list(summary(result).itertuples())  # the baseline first
    worse = [row.method for row in rows[1:] if sign * row.mean <= sign * rows[0].mean]
    if worse:
        verb = f"{'is' if len(worse) == 1 else 'are'} no better than"
        console.echo(f"warning    {', '.join(worse)} {verb} {baseline_name(classes)}")
    size = sum(len(models[0].test) for models in result.splits) / len(result.splits)
    console.warn(few_words(size, "a test set has about"))
    columns = ("method", score, "models", "parameters", "seconds", "trained")
    cells: list[Any] = []
    for row in rows:
        mean = f"{row.mean:.{digits}f} ± {row.std:.{digits}f}"
        numbers = (f"{row.models:,}", f"{row.parameters:,}", f"{row.seconds:.0f}")
        cells.append((row.method, mean, *numbers, row.trained))
    title = Text(f"{result.data.name}: {len(result.splits)} test sets")
    console.print(make_table(columns, cells, text=("trained",), title=title))
    methods = [m.method for m in result.methods]
    lines: dict[str, dict[str, str]] = {}
    for row in metric_table(result).itertuples():
        line = lines.setdefault(str(row.metric), dict.fromkeys(methods, ""))
        line[str(row.method)] = f"{row.mean:.3f} ± {row.std:.3f}"
    cells = [(score_name(name), *line.values()) for name, line in lines.items()]
    console.print(make_table(["score", *methods], cells))
    if len(selected := choices(result)):
        heads = ("method", "setting", "test sets")
        cells = [*selected.itertuples(index=False)]
        console.print(make_table(heads, cells, heads, title="Chosen on validation graphs"))
    for row in comparisons(result).itertuples():
        console.print(
            f"{row.first} - {row.second}: {row.difference:+.{digits}f}, p = {row.p:.3f} "
            "(corrected resampled t-test)"
        )
