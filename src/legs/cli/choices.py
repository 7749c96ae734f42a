"""What several commands ask for in the same words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from legs.data.dataset import GraphDataset
    from legs.data.splits import Indices


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class OnError(StrEnum):
    """What to do about a row that cannot be used."""

    stop = "raise"
    skip = "skip"


def number(text: str | float) -> float:
    """A number of the command line.

    >>> number("1e-3")
    0.001
    """
    from legs.data.readers.text import parse_number

    found = parse_number(str(text))
    if not math.isfinite(found):
        raise typer.BadParameter(f"{text!r} is not a finite number")
    return found


Model = Annotated[str, typer.Argument(help="Directory of a run or of a model.", metavar="RUN")]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV, Parquet, SDF or .smi file of molecules, a folder of graph or structure "
        "files, or a data set by name (legs datasets).",
    ),
]
SmilesColumn = Annotated[
    str | None,
    typer.Option(metavar="COL", show_default="found", help="Column of molecules."),
]
IdColumn = Annotated[
    str | None, typer.Option(metavar="COL", show_default="found", help="Column of ids.")
]
Bad = Annotated[
    OnError, typer.Option("--on-error", help="Stop at a row that cannot be used, or skip it.")
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="BLOCKS",
        show_default="what suits the data",
        help="Node features, such as structure, structure+labels or chem+structure.",
    ),
]
Hydrogens = Annotated[bool, typer.Option("--hydrogens", help="Make hydrogens nodes.")]
Symmetrize = Annotated[
    bool, typer.Option("--symmetrize", help="Take directed edges as undirected ones.")
]
Balanced = Annotated[bool, typer.Option("--balanced", help="Rare classes weigh more in the loss.")]
GradClip = Annotated[
    float | None,
    typer.Option(
        parser=number, metavar="FLOAT", show_default="none", help="Largest norm of the gradient."
    ),
]

# Old names of options, by command; some have other values, too.
RENAMED: dict[str, dict[str, str]] = {
    "train": {"--clip": "--grad-clip"},
    "cv": {"--clip": "--grad-clip", "--seeds": "--num-splits", "--way": "--strategy"},
}
_VALUES = {("--way", "single"): "sequential"}


def rename_options(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command line with options by their present names, and a warning for each old one.

    >>> rename_options(["cv", "MUTAG", "--way", "single", "--clip=1"])[0]
    ['cv', 'MUTAG', '--strategy', 'sequential', '--grad-clip=1']
    """
    command = next((arg for arg in args if not arg.startswith("-")), "")
    renamed, warnings = list(args), []
    for k, arg in enumerate(args):
        if arg == "--":
            break
        name, equals, value = arg.partition("=")
        new = RENAMED.get(command, {}).get(name)
        if new is None:
            continue
        warnings.append(f"{name} is now {new}")
        if equals:
            renamed[k] = f"{new}={_VALUES.get((name, value), value)}"
        else:
            renamed[k] = new
            if k + 1 < len(args):
                renamed[k + 1] = _VALUES.get((name, args[k + 1]), args[k + 1])
    return renamed, warnings


DeviceOption = Annotated[
    Device, typer.Option("--device", help="Where to compute; auto takes a GPU if there is one.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Option of the model, such as dropout=0.2 or scales=[1,2,4]; can be repeated.",
    ),
]


class Grouping(StrEnum):
    """Which rows stay in one part of a split."""

    structure = "structure"
    none = "none"


GroupBy = Annotated[
    Grouping | None,
    typer.Option(
        "--group-by",
        show_default="structure; none for data sets by name",
        help="Keep rows of one structure in one part of a split, or split rows one by one.",
    ),
]


def show_groups(console: Console, data: GraphDataset, group_by: Grouping | None) -> Indices | None:
    """Finds the rows of one structure and prints how many there are.

    Returns the group of every row, or ``None`` where every row is split by itself.
    """
    from legs.data.grouping import describe_groups, find_groups

    by: dict[Grouping | None, Literal["auto", "structure"] | None] = {
        None: "auto",
        Grouping.structure: "structure",
        Grouping.none: None,
    }
    groups = find_groups(data, by[group_by])
    for line in () if groups is None else describe_groups(groups):
        console.print(f"groups     {line}", soft_wrap=True, markup=False)
    return groups


def parse_settings(settings: Sequence[str] | None) -> dict[str, Any]:
    """``NAME=VALUE`` pairs; values are JSON, or else text.

    >>> parse_settings(["dropout=0.2", "aggr=mean"])
    {'dropout': 0.2, 'aggr': 'mean'}
    """
    found: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise ValueError(f"--set takes NAME=VALUE, such as dropout=0.2; got {setting!r}")
        if name in found:
            raise ValueError(f"--set gives {name} twice")
        found[name] = parse_value(value, "--set")
    return found


def parse_value(text: str, option: str) -> Any:
    """A number, other JSON, or else a word.

    Args:
        text: of the value.
        option: of the command line, for messages.

    >>> parse_value("0.5", "--set"), parse_value("[1, 2]", "--set"), parse_value("mean", "--set")
    (0.5, [1, 2], 'mean')
    """
    from legs.data.readers.text import parse_number

    def refuse(constant: str) -> None:
        raise OverflowError(constant)

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError:
        pass  # a word, or a number that JSON writes in another way
    except (OverflowError, RecursionError) as error:
        raise ValueError(
            f"{option} got {text[:40]!r}: not a finite number, or nested too deeply"
        ) from error
    try:
        number = float(text)
    except ValueError:
        return text
    try:
        if math.isfinite(parse_number(text)):
            return number
    except ValueError:  # Python alone takes it for one
        pass
    raise ValueError(f"{option} got {text!r}, which is not a finite number; write it in digits")


def counted(number: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
