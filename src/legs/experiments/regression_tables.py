"""Errors of a regression study beside the paper's: a row a cell, whether it was run or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from legs.experiments.comparing import NOT_RUN, combined_error, within
from legs.experiments.ledger import Row
from legs.experiments.paper_tables import Printed
from legs.experiments.regression_cells import RegressionCell
from legs.experiments.rows import chosen_words


class Landmark(NamedTuple):
    """A number of the paper, and why ours is not to be compared with it (empty: it is)."""

    printed: Printed
    note: str = ""


Lookup = Callable[[RegressionCell], Landmark | None]
COLUMNS = (
    "data", "variant", "method", "status", "paper_mean", "paper_std", "paper_note", "mean", "std",
    "difference", "combined_error", "within_one", "train_mean", "train_std", "guess", "r2_mean",
    "r2_std", "graphs", "parameters", "models", "seconds", "chosen", "protocol", "device",
)  # fmt: skip


def compared(
    cells: Sequence[RegressionCell], rows: Mapping[str, Row], paper: Lookup, runs: int
) -> pd.DataFrame:
    """Numbers for other programs: a row a cell of the plan.

    Args:
        cells: of the plan.
        rows: the finished ones, by key.
        paper: the paper's number for a cell.
        runs: of the paper behind a number.
    """
    found = []
    for cell in cells:
        landmark = None if cell.shuffled else paper(cell)
        found.append(_numbers(cell, rows.get(cell.key), landmark, runs))
    return pd.DataFrame(found, columns=list(COLUMNS))


def _numbers(
    cell: RegressionCell, row: Row | None, landmark: Landmark | None, runs: int
) -> dict[str, Any]:
    variant = ", ".join(filter(None, [cell.variant, "shuffled targets" * cell.shuffled]))
    known: dict[str, Any] = {"data": cell.data, "variant": variant, "method": cell.method}
    known["status"] = NOT_RUN if row is None else "run"
    if landmark is not None:
        mean, std = landmark.printed
        known |= {"paper_mean": mean, "paper_std": std, "paper_note": landmark.note}
    if row is None:
        return known
    copied = ("mean", "std", "graphs", "parameters", "models", "seconds", "protocol", "device")
    known |= {name: row[name] for name in copied}
    known |= {"guess": float(np.mean(row["guess"])), "chosen": chosen_words(row["chosen"])}
    known |= {"r2_mean": float(np.mean(row["r2"])), "r2_std": float(np.std(row["r2"]))}
    if row["train"]:
        known["train_mean"] = float(np.mean(row["train"]))
        known["train_std"] = float(np.std(row["train"]))
    if landmark is not None and not landmark.note and landmark.printed.std is not None:
        difference = row["mean"] - landmark.printed.mean
        error = combined_error(landmark.printed.std, row["std"], len(row["scores"]), runs)
        known |= {"difference": difference, "combined_error": error}
        known["within_one"] = within(difference, error)
    return known


def shown(table: pd.DataFrame, style: str = ".3f") -> pd.DataFrame:
    """The same for people: numbers with their deviations.

    Args:
        table: of :func:`compared`.
        style: how errors are written (default: with three digits).
    """
    columns: dict[str, list[str]] = {"data": list(table["data"])}
    if table["variant"].any():
        columns["variant"] = list(table["variant"])
    columns["method"] = list(table["method"])
    columns["paper"] = [
        " ".join(filter(None, [spread(a, b, style), f"({note})" if text(note) else ""]))
        for a, b, note in zip(table.paper_mean, table.paper_std, table.paper_note, strict=True)
    ]
    columns["ours"] = [
        spread(mean, std, style) if status == "run" else NOT_RUN
        for mean, std, status in zip(table["mean"], table["std"], table["status"], strict=True)
    ]
    columns["difference"] = [number(value, f"+{style}") for value in table["difference"]]
    columns["standard error"] = [number(value, style) for value in table["combined_error"]]
    columns["within one"] = [text(value) for value in table["within_one"]]
    columns["train"] = [
        spread(a, b, style) for a, b in zip(table.train_mean, table.train_std, strict=True)
    ]
    columns["mean predictor"] = [number(value, style) for value in table["guess"]]
    columns["R²"] = [spread(a, b, ".3f") for a, b in zip(table.r2_mean, table.r2_std, strict=True)]
    for name in ("graphs", "parameters", "models", "seconds"):
        columns[name] = [number(value, ",.0f") for value in table[name]]
    for name in ("chosen", "protocol", "device"):
        columns[name] = [text(value) for value in table[name]]
    return pd.DataFrame(columns)


def overview(table: pd.DataFrame, style: str = ".3f") -> pd.DataFrame:
    """A row a method, a column a data set (and variant): ours, and in brackets the paper's mean."""
    columns: dict[str, dict[str, str]] = {}
    for row in table.to_dict("records"):
        label = ", ".join(filter(None, [str(row["data"]), str(row["variant"])]))
        cell = spread(row["mean"], row["std"], style) if row["status"] == "run" else NOT_RUN
        if not missing(row["paper_mean"]):
            mark = "*" if text(row["paper_note"]) else ""
            cell += f" ({format(row['paper_mean'], style)}{mark})"
        columns.setdefault(label, {})[str(row["method"])] = cell
    methods = list(dict.fromkeys(table["method"]))
    return pd.DataFrame(
        {
            "method": methods,
            **{
                label: [column.get(method, "") for method in methods]
                for label, column in columns.items()
            },
        }
    )


def by_target(
    rows: Sequence[Row], paper: Callable[[str, str], Printed | None] = lambda target, method: None
) -> pd.DataFrame:
    """Errors of whitened targets, a row a target, a column a method.

    Args:
        rows: finished cells of one data set and variant.
        paper: the paper's number for a target and a method, given in brackets (default: none).
    """
    columns: dict[str, list[str]] = {}
    for row in rows:
        columns.setdefault("target", [*row["targets"], "mean"])
        errors = np.asarray(row["by_target"])
        errors = np.concatenate([errors, np.nanmean(errors, axis=1, keepdims=True)], axis=1)
        found = []
        for name, mean, std in zip(columns["target"], errors.mean(0), errors.std(0), strict=True):
            known = paper(name, row["method"])
            found.append(spread(mean, std, ".3f") + (f" ({known.mean:.3f})" if known else ""))
        columns[row["method"]] = found
    return pd.DataFrame(columns)


def missing(value: Any) -> bool:
    """Whether a table has no value there."""
    return bool(pd.isna(value))


def number(value: Any, style: str) -> str:
    """A number, or nothing where there is none."""
    return "" if missing(value) else format(float(value), style)


def text(value: Any) -> str:
    """Words, or nothing where there are none."""
    return "" if missing(value) else str(value)


def spread(mean: Any, std: Any, style: str) -> str:
    """Mean and deviation.

    >>> spread(0.2164, 0.009, ".3f"), spread(float("nan"), 0.1, ".3f")
    ('0.216 ± 0.009', '')
    """
    if missing(mean):
        return ""
    return format(mean, style) if missing(std) else f"{mean:{style}} ± {std:{style}}"
