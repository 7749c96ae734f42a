"""Options that several commands share, and the values they take."""

import inspect
import json
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Exit, Option, echo

if TYPE_CHECKING:
    from legs.data.dataset import GraphDataset


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
    raise BadParameter(f"{text!r} is not a finite number")


def output(metavar: str, help: str, **settings: Any) -> Any:
    """The option ``-o``."""
    return Option("--output", "-o", metavar=metavar, help=help, **settings)


COLUMN: Any = {"metavar": "COL", "show_default": "detected"}
FLOAT: Any = {"metavar": "FLOAT", "parser": number}
Precision = Literal["float32", "tf32", "bfloat16", "float64"]
Run = Annotated[str, Argument(metavar="RUN", help="Directory of a run or of a model.")]
Data = Annotated[
    str,
    Argument(
        metavar="DATA",
        help="A CSV, TSV, Excel, Parquet, SDF or .smi file of molecules, a folder of graph or "
        "structure files, or the name of a data set (see legs datasets).",
    ),
]
SmilesColumn = Annotated[str | None, Option(**COLUMN, help="Column with SMILES.")]
IdColumn = Annotated[str | None, Option(**COLUMN, help="Column with ids.")]
OnError = Annotated[Literal["raise", "skip"], Option(help="Stop at the first bad row, or skip it.")]
Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="Model option, e.g. dropout=0.2; can be repeated."),
]
GroupBy = Annotated[
    Literal["structure", "none"] | None,
    Option(help="Keep rows of one structure in one part of a split (default for files), or not."),
]
Device = Annotated[Literal["auto", "cpu", "cuda"], Option(help="Device; auto prefers a GPU.")]
Engine = Annotated[Literal["local", "ray"], Option(help="Run on this machine or on a Ray cluster.")]
Address = Annotated[
    str | None, Option(metavar="HOST:PORT", help="Default: $RAY_ADDRESS, or a new cluster.")
]


@dataclass(frozen=True)
class ReadingOptions:
    """How a file is read."""

    smiles_column: SmilesColumn = None
    id_column: IdColumn = None
    on_error: OnError = "raise"
    features: Annotated[
        str | None,
        Option(metavar="BLOCKS", help="Node features, such as structure+labels or chem."),
    ] = None
    descriptors: Annotated[
        Literal["rdkit"] | None, Option(help="Descriptors of molecules, for each graph as a whole.")
    ] = None
    fingerprint: Annotated[
        Literal["morgan", "morgan-count"] | None,
        Option(help="Fingerprint of molecules, likewise."),
    ] = None
    hydrogens: Annotated[bool, Option("--hydrogens", help="Include hydrogens as nodes.")] = False
    symmetrize: Annotated[
        bool, Option("--symmetrize", help="Treat directed edges as undirected.")
    ] = False

    def arguments(self) -> dict[str, Any]:
        """What functions of the library take."""
        values = {name: None if v in (False, []) else v for name, v in vars(self).items()}
        return {"directed": "symmetrize" if values.pop("symmetrize") else None, **values}


@dataclass(frozen=True)
class DataOptions(ReadingOptions):
    """How a file is read for training."""

    target: Annotated[
        list[str] | None, Option(**COLUMN, help="Column to predict; can be repeated.")
    ] = None
    task: Annotated[
        Literal["classification", "regression", "multilabel"] | None,
        Option(show_default="detected", help="Type of the targets."),
    ] = None
    keep_salts: Annotated[
        bool, Option("--keep-salts", help="Keep all of a salt or mixture, not its largest part.")
    ] = False
    split_column: Annotated[
        str | None, Option(metavar="COL", help="Column that says train, validation or test.")
    ] = None
    limit: Annotated[int | None, Option(min=1, help="Read only this many graphs.")] = None

    def load(self, data: str) -> "GraphDataset":
        """Reads a file or a named data set."""
        from legs.data.loading import load_training

        return load_training(data, **self.arguments())


@dataclass(frozen=True)
class LoopOptions:
    """How a network is trained: arguments of :class:`legs.training.TrainingOptions`."""

    max_epochs: Annotated[int, Option("--epochs", min=1, help="Maximum number of epochs.")] = 1000
    lr: Annotated[float, Option(**FLOAT, help="Learning rate.")] = 1e-3
    batch_size: Annotated[int, Option(min=1, help="Graphs per batch.")] = 128
    patience: Annotated[int, Option(min=1, help="Epochs to wait for a better loss.")] = 100
    clip: Annotated[float | None, Option("--grad-clip", **FLOAT, help="Max gradient norm.")] = None
    optimizer: Annotated[Literal["adam", "adamw"], Option(help="Optimizer.")] = "adam"
    weight_decay: Annotated[float, Option(min=0.0, help="Weight decay.")] = 0.0
    schedule: Annotated[
        Literal["constant", "cosine"], Option(help="Of the learning rate; cosine falls to zero.")
    ] = "constant"
    warmup: Annotated[int, Option(min=0, help="Epochs of a rising learning rate.")] = 0
    scale_lr: Annotated[
        float | None, Option(**FLOAT, help="Learning rate of learned scales; default: --lr.")
    ] = None
    balanced: Annotated[bool, Option("--balanced", help="Weight rare classes more.")] = False
    seed: Annotated[int, Option(help="Seed of splits, weights and batches.")] = 0


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Turns the parameters of a command that are dataclasses into one option per field."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters += inspect.signature(groups[name]).parameters.values()
        else:
            parameters.append(parameter)

    @wraps(command)
    def expanded(**values: Any) -> None:
        for name, group in groups.items():
            if name not in values:
                values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    keywords = [each.replace(kind=each.KEYWORD_ONLY) for each in parameters]
    expanded.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return expanded


def check_address(engine: str, address: str | None) -> None:
    """Refuses the address of a cluster that is not used."""
    if engine == "local" and address is not None:
        raise UsageError("--address is that of a Ray cluster; add --engine ray")


def interrupted(then: str) -> Exit:
    """What to raise after Ctrl-C, having said what the same command does next time."""
    echo(f"legs: interrupted; the same command {then}", err=True)
    return Exit(130)


def describe_salts(salts: int) -> str:
    """How many rows are not read whole."""
    return f"{counted(salts, 'row')} of several fragments, of which the largest is read"


def command_line() -> str:
    """The command, for the record of a run."""
    return shlex.join(["legs", *sys.argv[1:]])


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

    if grid is None:
        return grid_of(parse_tune(tune))
    if tune:
        raise UsageError("--tune and --grid exclude each other")
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
    except (BadParameter, RecursionError):
        reason = "not a finite number, or nested too deeply"
        raise UsageError(f"{option} got {text[:40]!r}: {reason}") from None
    return text


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
