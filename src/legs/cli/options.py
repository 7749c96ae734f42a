"""Options that several commands share, and the values they take."""

import inspect
import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

if TYPE_CHECKING:
    from legs.cli.console import Console
    from legs.data.dataset import GraphDataset
    from legs.data.splits import Indices


class UsageError(ValueError):
    """A command line that cannot be used: exit status 2."""


def number(text: str | float) -> float:
    """A number of the command line.

    >>> number("1e-3")
    0.001
    """
    from legs.data.readers.targets import parse_number

    with suppress(ValueError):
        if math.isfinite(value := parse_number(str(text))):
            return value
    raise typer.BadParameter(f"{text!r} is not a finite number")


Precision = Literal["float32", "tf32", "bfloat16", "float64"]
Grouping = Literal["structure", "none"]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Directory of a run or of a model.")]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV, Parquet, SDF or .smi file of molecules, a folder of graph or structure "
        "files, or the name of a data set (see legs datasets).",
    ),
]
SmilesColumn = Annotated[
    str | None, typer.Option(metavar="COL", show_default="detected", help="Column of SMILES.")
]
IdColumn = Annotated[
    str | None, typer.Option(metavar="COL", show_default="detected", help="Column of ids.")
]
OnError = Annotated[
    Literal["raise", "skip"],
    typer.Option(help="Stop at the first row that cannot be used, or skip such rows."),
]
Symmetrize = Annotated[
    bool, typer.Option("--symmetrize", help="Treat directed edges as undirected.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Option of the model, such as dropout=0.2 or scales=[1,2,4]; can be repeated.",
    ),
]
GroupBy = Annotated[
    Grouping | None,
    typer.Option(
        show_default="structure; none for named data sets",
        help="Keep rows with the same structure in one part of a split, or split row by row.",
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    typer.Option(help="Where to compute; auto uses a GPU if there is one."),
]
Engine = Annotated[
    Literal["local", "ray"], typer.Option(help="Run on this machine or on a Ray cluster.")
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", show_default="$RAY_ADDRESS, or a new one", help="Of the Ray cluster."
    ),
]


@dataclass(frozen=True)
class DataOptions:
    """How a file is read for training."""

    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL", show_default="detected", help="Column to predict; can be repeated."
        ),
    ] = None
    task: Annotated[
        Literal["classification", "regression"] | None,
        typer.Option(show_default="detected", help="Kind of the targets."),
    ] = None
    smiles_column: SmilesColumn = None
    id_column: IdColumn = None
    on_error: OnError = "raise"
    features: Annotated[
        str | None,
        typer.Option(
            metavar="BLOCKS",
            show_default="depends on the data",
            help="Node features, such as structure, structure+labels or chem+structure.",
        ),
    ] = None
    hydrogens: Annotated[bool, typer.Option("--hydrogens", help="Include hydrogens as nodes.")] = (
        False
    )
    symmetrize: Symmetrize = False
    limit: Annotated[
        int | None, typer.Option(min=1, show_default="all", help="Read only the first graphs.")
    ] = None

    def load(self, data: str) -> "GraphDataset":
        """Reads a file or a named data set."""
        from legs.data.loading import load_training

        values = {**vars(self), "target": self.target or None, "hydrogens": self.hydrogens or None}
        directed = "symmetrize" if values.pop("symmetrize") else None
        return load_training(data, directed=directed, **values)


@dataclass(frozen=True)
class LoopOptions:
    """How a network is trained: arguments of :class:`legs.training.TrainingOptions`."""

    max_epochs: Annotated[int, typer.Option("--epochs", min=1, help="Maximum epochs.")] = 1000
    lr: Annotated[float, typer.Option(parser=number, metavar="FLOAT", help="Learning rate.")] = 1e-3
    batch_size: Annotated[int, typer.Option(min=1, help="Graphs per batch.")] = 128
    patience: Annotated[
        int, typer.Option(min=1, help="Stop after this many epochs without a better loss.")
    ] = 100
    clip: Annotated[
        float | None,
        typer.Option("--grad-clip", parser=number, metavar="FLOAT", help="Maximum gradient norm."),
    ] = None
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Weight classes inversely to their frequency.")
    ] = False
    seed: Annotated[int, typer.Option(help="Seed of splits, weights and batches.")] = 0


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Turns the parameters of a command that are dataclasses into one option per field."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, own in inspect.signature(command).parameters.items():
        types, defaults = hints, {name: own.default}
        if group := groups.get(name):
            types = get_type_hints(group, include_extras=True)
            defaults = {field.name: field.default for field in fields(group)}
        parameters += [
            own.replace(name=each, kind=own.KEYWORD_ONLY, default=default, annotation=types[each])
            for each, default in defaults.items()
        ]

    @wraps(command)
    def expanded(**values: Any) -> None:
        for name, group in groups.items():
            own = [field.name for field in fields(group) if field.name in values]
            values.setdefault(name, group(**{each: values.pop(each) for each in own}))
        command(**values)

    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {p.name: p.annotation for p in parameters}
    return expanded


def find_groups(
    console: "Console", data: "GraphDataset", group_by: Grouping | None
) -> "Indices | None":
    """The group of every row, after a line about them; ``None`` where rows are split one by one."""
    from legs.data import splits

    by: Literal["auto", "structure"] = group_by if group_by == "structure" else "auto"
    groups = splits.find_groups(data, None if group_by == "none" else by)
    for line in () if groups is None else splits.describe_groups(groups):
        console.echo(f"groups     {line}")
    return groups


def check_address(engine: str, address: str | None) -> None:
    """Refuses the address of a cluster that is not used."""
    if engine == "local" and address is not None:
        raise UsageError("--address is that of a Ray cluster; add --engine ray")


def parse_settings(settings: Sequence[str] | None) -> dict[str, Any]:
    """``NAME=VALUE`` pairs; values are JSON, or else text.

    >>> parse_settings(["dropout=0.2", "aggr=mean"])
    {'dropout': 0.2, 'aggr': 'mean'}
    """
    pairs = _split_pairs(settings, "--set", "NAME=VALUE, such as dropout=0.2")
    return {name: _parse_value(text, "--set") for name, text in pairs.items()}


def parse_tune(tune: Sequence[str] | None) -> dict[str, list[Any]]:
    """Values by option: JSON numbers, true, false and null, or else words.

    >>> parse_tune(["lr=0.001,0.003", "learn-laziness=false,channel"])
    {'lr': [0.001, 0.003], 'learn_laziness': [False, 'channel']}
    """
    example, values = "NAME=VALUE,VALUE, such as lr=0.001,0.003", {}
    for name, text in _split_pairs(tune, "--tune", example).items():
        words = [word.strip() for word in text.split(",")]
        if not all(words):
            raise UsageError(f"--tune takes {example}; got '{name}={text}'")
        if any(mark in text for mark in "[]{}"):
            raise UsageError(f"--tune takes numbers and words, not {text}; use --grid for lists")
        values[name] = [_parse_value(word, "--tune") for word in words]
        if len(set(map(repr, values[name]))) < len(words):
            raise UsageError(f"--tune gives a value of {name} twice: {text}")
    return values


def parse_grid(
    grid: str | None = None, tune: Sequence[str] | None = None
) -> tuple[dict[str, Any], ...]:
    """The settings to choose from: a JSON list, or all combinations of values by option.

    >>> parse_grid(tune=["lr=0.01,0.001", "steps=8"])
    ({'lr': 0.01, 'steps': 8}, {'lr': 0.001, 'steps': 8})
    """
    from legs.training.cv.protocol import grid_of

    if tune and grid is not None:
        raise UsageError("--tune and --grid exclude each other")
    if grid is None:
        return grid_of(parse_tune(tune)) if tune else ({},)
    rows = _parse_value(grid, "--grid")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or not rows:
        raise UsageError('--grid must be a JSON list, e.g. [{"lr": 0.01}, {"lr": 0.001}]')
    return tuple(rows)


def _split_pairs(pairs: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise UsageError(f"{option} takes {example}; got {pair!r}")
        if name in values:
            raise UsageError(f"{option} gives {name} twice")
        values[name] = text
    return values


def _parse_value(text: str, option: str) -> Any:
    """A finite number, other JSON, or else a word."""
    try:
        with suppress(ValueError):
            return json.loads(text, parse_float=number, parse_constant=number)
        with suppress(ValueError):
            float(text)
            return number(text)  # which JSON writes differently, as .5
    except (typer.BadParameter, RecursionError):
        reason = "not a finite number, or nested too deeply"
        raise UsageError(f"{option} got {text[:40]!r}: {reason}") from None
    return text


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
