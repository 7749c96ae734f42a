"""What several commands ask for in the same words."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer


class OnError(StrEnum):
    """What to do about a row that cannot be used."""

    stop = "raise"
    skip = "skip"


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
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Option of the model, such as dropout=0.2 or scales=[1,2,4]; can be repeated.",
    ),
]


def parse_settings(settings: Sequence[str] | None) -> dict[str, Any]:
    """``NAME=VALUE`` pairs; values are JSON, or else text.

    >>> parse_settings(["dropout=0.2", "aggr=mean"])
    {'dropout': 0.2, 'aggr': 'mean'}
    """
    from legs.files import parse_json

    found: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise ValueError(f"--set takes NAME=VALUE, such as dropout=0.2; got {setting!r}")
        if name in found:
            raise ValueError(f"--set gives {name} twice")
        try:
            found[name] = parse_json(value)
        except ValueError:
            found[name] = value
    return found


def counted(number: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
