"""The paper's numbers, as it prints them: tables of mean and deviation by row and column."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

# Sets that the paper calls otherwise than the collection they come from.
PAPER_NAMES = {"PTC_MR": "PTC"}


class Printed(NamedTuple):
    """A number of the paper; ``std`` is ``None`` where it prints none."""

    mean: float
    std: float | None


@cache
def paper_table(name: str) -> dict[tuple[str, str], Printed]:
    """A table of the paper by row and column; both in lower case.

    Args:
        name: of the file in ``experiments/paper``, without its ending.

    >>> paper_table("classification")["ptc", "legs-rbf"]
    Printed(mean=57.26, std=5.54)
    >>> paper_table("enzyme_exchange")["", "gcn"]
    Printed(mean=0.155, std=None)
    """
    text = (files("legs.experiments") / "paper" / f"{name}.csv").read_text(encoding="utf-8")
    found = {}
    for row in csv.DictReader(text.splitlines()):
        key = row.get("row", "").casefold(), row["column"].casefold()
        found[key] = Printed(float(row["mean"]), float(row["std"]) if row["std"] else None)
    return found


def printed(table: str, row: str, column: str) -> Printed | None:
    """A number of the paper by our names for its row and column; ``None`` if it has none.

    Args:
        table: its name, as for :func:`paper_table`.
        row: a data set.
        column: a method, or what the table calls the column.

    >>> printed("classification", "PTC_MR", "graphsage")
    Printed(mean=55.22, std=9.13)
    >>> printed("classification", "PTC_MR", "snowball") is None
    True
    """
    key = PAPER_NAMES.get(row, row).casefold(), column.casefold()
    return paper_table(table).get(key)
