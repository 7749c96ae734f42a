"""Our numbers beside the paper's: a row a cell, whether it was run or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from legs.experiments.cells import Cell
from legs.experiments.ledger import Row
from legs.experiments.paper_tables import Printed
from legs.experiments.rows import chosen_words

PAPER_TEST_SETS = 10
NOT_RUN = "not run"
Lookup = Callable[[Cell], Printed | None]


def combined_error(
    paper: float, ours: float, test_sets: int, paper_test_sets: int = PAPER_TEST_SETS
) -> float:
    r"""The standard error of a difference, :math:`\sqrt{s_1^2 / n + s_2^2 / k}`.

    Args:
        paper: the paper's deviation over its test sets.
        ours: our deviation.
        test_sets: our number ``k`` of them.
        paper_test_sets: the paper's number ``n`` (default 10, of its classification).

    >>> round(combined_error(3.0, 4.0, 10), 3)
    1.581
    """
    return math.sqrt(paper**2 / paper_test_sets + ours**2 / test_sets)


def within(difference: float, error: float) -> str:
    """Whether a difference is within one standard error, and if not, on which side.

    >>> within(-0.5, 0.6), within(2.0, 0.6)
    ('yes', 'no, above')
    """
    if abs(difference) <= error:
        return "yes"
    return "no, above" if difference > 0 else "no, below"


def compared(cells: Sequence[Cell], rows: Mapping[str, Row], paper: Lookup) -> pd.DataFrame:
    """Numbers for other programs: a row a cell of the plan.

    Args:
        cells: of the plan.
        rows: the finished ones, by key.
        paper: the paper's number for a cell.
    """
    found = [
        _numbers(cell, rows.get(cell.key), None if cell.shuffled else paper(cell)) for cell in cells
    ]
    return pd.DataFrame(found, columns=list(_COLUMNS))


_COLUMNS = (
    "data", "method", "variant", "status", "paper_mean", "paper_std", "mean", "std", "difference",
    "combined_error", "within_one", "guess", "graphs", "parameters", "models", "seconds", "chosen",
    "protocol", "device",
)  # fmt: skip


def _numbers(cell: Cell, row: Row | None, printed: Printed | None) -> dict[str, Any]:
    known: dict[str, Any] = {"data": cell.data, "method": cell.method}
    known["variant"] = ", ".join(filter(None, [cell.variant, "shuffled labels" * cell.shuffled]))
    known["status"] = NOT_RUN if row is None else "run"
    if printed is not None:
        known |= {"paper_mean": printed.mean, "paper_std": printed.std}
    if row is None:
        return known
    copied = ("mean", "std", "graphs", "parameters", "models", "seconds", "protocol", "device")
    known |= {name: row[name] for name in copied}
    known |= {"guess": float(np.mean(row["guess"])), "chosen": chosen_words(row["chosen"])}
    if printed is not None and printed.std is not None:
        difference = row["mean"] - printed.mean
        error = combined_error(printed.std, row["std"], len(row["scores"]))
        known |= {"difference": difference, "combined_error": error}
        known["within_one"] = within(difference, error)
    return known


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The same for people: numbers with their deviations, in per cent.

    >>> from legs.training import CVOptions
    >>> cell = Cell("MUTAG", "gcn", CVOptions())
    >>> page = shown(compared([cell], {}, lambda cell: Printed(79.3, 9.66)))
    >>> page.iloc[0][["data", "paper", "ours"]].tolist()
    ['MUTAG', '79.30 ± 9.66', 'not run']
    """
    columns: dict[str, list[str]] = {"data": list(table["data"]), "method": list(table["method"])}
    if table["variant"].any():
        columns["variant"] = list(table["variant"])
    columns["paper"] = [
        _spread(a, b) for a, b in zip(table.paper_mean, table.paper_std, strict=True)
    ]
    columns["ours"] = [
        _spread(row.mean, row.std) if row.status == "run" else NOT_RUN
        for row in table[["mean", "std", "status"]].itertuples(index=False)
    ]
    columns["difference"] = [_number(value, "+.2f") for value in table["difference"]]
    columns["standard error"] = [_number(value, ".2f") for value in table["combined_error"]]
    columns["within one"] = [_text(value) for value in table["within_one"]]
    columns["guess"] = [_number(value, ".2f") for value in table["guess"]]
    columns["parameters"] = [_number(value, ",.0f") for value in table["parameters"]]
    columns["models"] = [_number(value, ",.0f") for value in table["models"]]
    columns["seconds"] = [_number(value, ",.0f") for value in table["seconds"]]
    for name in ("chosen", "protocol", "device"):
        columns[name] = [_text(value) for value in table[name]]
    return pd.DataFrame(columns)


def overview(table: pd.DataFrame) -> pd.DataFrame:
    """A row a data set (and variant), a column a method: ours, and in brackets the paper's mean."""
    rows: dict[str, dict[str, str]] = {}
    guesses: dict[str, str] = {}
    for row in table.to_dict("records"):
        label = ", ".join(filter(None, [str(row["data"]), str(row["variant"])]))
        cell = _spread(row["mean"], row["std"]) if row["status"] == "run" else NOT_RUN
        if not _missing(row["paper_mean"]):
            cell += f" ({row['paper_mean']:.2f})"
        rows.setdefault(label, {})[str(row["method"])] = cell
        if not _missing(row["guess"]):
            guesses[label] = f"{row['guess']:.2f}"
    methods = list(dict.fromkeys(table["method"]))
    return pd.DataFrame(
        [
            {"data": label, "guess": guesses.get(label, ""), **{m: row.get(m, "") for m in methods}}
            for label, row in rows.items()
        ]
    )


def tally(table: pd.DataFrame) -> pd.DataFrame:
    """How often a method reaches the paper's mean: a row a method.

    Args:
        table: of :func:`compared`.
    """
    both = table[table["difference"].notna()]
    rows = []
    for method in dict.fromkeys(both["method"]):
        own = both[both["method"] == method]
        rows.append(
            {
                "method": method,
                "cells": len(own),
                "at or above the paper's mean": int((own["difference"] >= 0).sum()),
                "within one standard error": int((own["within_one"] == "yes").sum()),
                "above by more": int((own["within_one"] == "no, above").sum()),
                "below by more": int((own["within_one"] == "no, below").sum()),
            }
        )
    return pd.DataFrame(rows)


def _missing(value: Any) -> bool:
    return bool(pd.isna(value))


def _number(value: Any, style: str) -> str:
    return "" if _missing(value) else format(float(value), style)


def _text(value: Any) -> str:
    return "" if _missing(value) else str(value)


def _spread(mean: Any, std: Any) -> str:
    if _missing(mean):
        return ""
    return f"{mean:.2f}" if _missing(std) else f"{mean:.2f} ± {std:.2f}"
