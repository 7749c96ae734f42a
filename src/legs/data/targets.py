"""Targets from the columns of a table: classes or numbers, one rule for every reader.

The rule, where the task is not given:

* One column of names (text, true/false, a pandas category): classification.
* One column of integers: classification if it has at most :data:`MOST_CLASSES` distinct values and
  at least two rows a value on average, regression otherwise. A float column of whole numbers *with
  gaps* counts as integers, for that is what pandas makes of integers with missing values.
* One column of other floats: regression, even if they are whole numbers and few.
* Text that reads as numbers throughout counts as numbers.
* Several columns: regression. Columns that would all be classes, or one that holds names, are
  refused: classification takes one column.

The task can be given instead. ``"classification"`` takes any values as classes; ``"regression"``
takes true/false as 1 and 0, and rows whose value is no number are bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from legs.data.columns import MOST_CLASSES, Array, Column, listed, parse_column, pick_column
from legs.data.dataset import Task
from legs.data.errors import BadRows, DataError

_USUAL_NAMES = ("target", "targets", "label", "labels", "y", "class")


class Targets(NamedTuple):
    """The targets of the rows that were kept."""

    y: Tensor  # [kept rows] int64 classes, or [kept rows, columns] float32 numbers
    task: Task
    class_names: tuple[str, ...]  # sorted: numbers by value, names by alphabet; () for numbers
    target_names: tuple[str, ...]
    kept: np.ndarray[Any, np.dtype[np.bool_]]  # [rows of the frame]


def encode_targets(
    frame: pd.DataFrame,
    columns: Sequence[str],
    task: Task | None = None,
    *,
    bad: BadRows | None = None,
    where: Sequence[str] | None = None,
    missing: bool = False,
) -> Targets:
    """Encodes target columns as classes or numbers, by the rule at the top of this module.

    Call it on the rows whose graphs could be read, so that no class is left without a graph; then
    drop the graphs that are not ``kept``.

    Args:
        frame: one row a graph.
        columns: names of the target columns, at least one.
        task: overrides the detection.
        bad: is told of rows with missing or infinite targets; default: the first one raises.
        where: what to call each row in messages; default ``row 1``, ``row 2``, …
        missing: keep rows with *some* targets missing as NaN (regression on several columns).

    >>> table = pd.DataFrame({"kind": ["b", "a", "b"], "size": [0.5, 1.5, None]})
    >>> encode_targets(table, ["kind"])[:3]
    (tensor([1, 0, 1]), 'classification', ('a', 'b'))
    >>> encode_targets(table, ["size"], bad=BadRows("skip")).y
    tensor([[0.5000],
            [1.5000]])
    """
    if task not in (None, "classification", "regression"):
        raise DataError(f"the task is 'classification' or 'regression', not {task!r}")
    if not columns or len(set(columns)) < len(columns):
        raise DataError(f"target columns must be distinct, and at least one: {listed(columns)}")
    bad = BadRows() if bad is None else bad
    names = [f"row {i + 1}" for i in range(len(frame))] if where is None else list(where)
    parsed = [parse_column(pick_column(frame, name), names) for name in columns]

    present = np.stack([column.present for column in parsed], axis=1)
    some = missing and len(parsed) > 1
    kept: Array = np.asarray(present.any(axis=1) if some else present.all(axis=1))
    for row in np.flatnonzero(~kept).tolist():
        absent = columns[int(np.flatnonzero(~present[row])[0])]
        bad.add(names[row], f"no value in the target column {absent!r}")
    if not kept.any():
        raise DataError(f"no row has a value in the target column(s) {', '.join(columns)}")

    if (task or _detect(parsed)) == "regression":
        return _numbers(parsed, kept, names, bad)
    if len(parsed) > 1:
        raise DataError(
            f"classification takes one target column, not {len(parsed)} "
            f"({listed(columns)}); multi-label classification is not supported"
        )
    column = parsed[0]
    if column.kind in ("integers", "floats"):
        for row in np.flatnonzero(np.isinf(column.number)).tolist():
            bad.add(names[row], f"the target column {column.name!r} is infinite")
            kept[row] = column.present[row] = False
    y, class_names = _classes(column, names, asked=task is not None)
    return Targets(y, "classification", class_names, tuple(columns), kept)


def find_targets(
    frame: pd.DataFrame, target: str | Sequence[str] | None = None, *, other: Sequence[str] = ()
) -> list[str]:
    """The target columns of a table: those asked for, or the one that can be meant.

    Without ``target``: the only column named target, label, y or class, or the only one besides
    ``other`` (ids, SMILES, file names); no further column: no targets (``[]``).

    >>> find_targets(pd.DataFrame(columns=["file", "label", "note"]), other=["file"])
    ['label']
    """
    if target is not None:
        asked = [target] if isinstance(target, str) else list(target)
        for name in asked:
            pick_column(frame, name)
        return asked
    free = [str(name) for name in frame.columns if str(name) not in other]
    usual = [name for name in free if name.strip().lower() in _USUAL_NAMES]
    for chosen in (usual, free):
        if len(chosen) == 1:
            return chosen
    if free:
        raise DataError(
            f"which column is the target? There are {listed(free)}; name one or more (--target)"
        )
    return []


def _detect(columns: Sequence[Column]) -> Task:
    if len(columns) == 1:
        # A mixed column goes on to _classes, which names the row.
        classes = columns[0].kind == "mixed" or columns[0].looks_like_classes()
        return "classification" if classes else "regression"
    if all(column.looks_like_classes() for column in columns):
        raise DataError(
            f"the target columns {listed(c.name for c in columns)} all look like classes, and "
            "multi-label classification is not supported: name one of them, or give the task "
            "'regression' to take them as numbers"
        )
    for column in columns:
        if column.kind in ("names", "mixed"):
            raise DataError(
                f"the target column {column.name!r} holds names; several targets at once are "
                "regressed and must be numbers"
            )
    return "regression"


def _classes(
    column: Column, names: Sequence[str], *, asked: bool
) -> tuple[Tensor, tuple[str, ...]]:
    if column.kind == "mixed" and not asked:
        _refuse_mixture(column, names)
    if column.kind in ("integers", "floats"):
        _refuse_measurements(column, names)
        ordered, y = np.unique(column.number[column.present], return_inverse=True)
        class_names = tuple(str(int(v)) if v.is_integer() else str(v) for v in ordered.tolist())
    else:
        text = np.array([str(value) for value in column.raw[column.present]], dtype=object)
        ordered, y = np.unique(text, return_inverse=True)
        class_names = tuple(ordered.tolist())
    if len(class_names) < 2:
        raise DataError(
            f"the target column {column.name!r} holds one class only "
            f"({listed(class_names)}); two are needed to classify"
        )
    if not asked and len(class_names) > MOST_CLASSES and 2 * len(class_names) > len(y):
        raise DataError(
            f"the target column {column.name!r} holds {len(class_names)} different names in "
            f"{len(y)} rows: ids rather than classes? Name another column, or give the task "
            "'classification' if they are meant"
        )
    return torch.from_numpy(y.astype(np.int64)), class_names


def _numbers(parsed: Sequence[Column], kept: Array, names: Sequence[str], bad: BadRows) -> Targets:
    for column in parsed:
        if column.kind == "names":
            raise DataError(
                f"the target column {column.name!r} holds names; regression takes numbers"
            )
    with np.errstate(over="ignore"):
        y = np.stack([column.number for column in parsed], axis=1).astype(np.float32)
    broken = ~np.isfinite(y) & np.stack([column.present for column in parsed], axis=1)
    for row in np.flatnonzero(broken.any(axis=1) & kept).tolist():
        column = parsed[int(np.flatnonzero(broken[row])[0])]
        bad.add(
            names[row],
            f"the target column {column.name!r} holds {str(column.raw[row])[:40]!r}, "
            "not a finite number",
        )
    fine = kept & ~broken.any(axis=1)
    columns = tuple(column.name for column in parsed)
    if not fine.any():
        raise DataError(f"no row has a finite number in the target column(s) {listed(columns)}")
    return Targets(torch.from_numpy(y[fine]), "regression", (), columns, fine)


def _refuse_mixture(column: Column, names: Sequence[str]) -> None:
    rows = np.flatnonzero(column.present).tolist()
    sorts = [
        "truth" if isinstance(column.raw[row], bool | np.bool_) else np.isnan(column.number[row])
        for row in rows
    ]
    # The rarest sort is the odd one out; of equals, the one that comes later.
    odd = min(set(sorts), key=lambda sort: (sorts.count(sort), -sorts.index(sort)))
    row = rows[sorts.index(odd)]
    raise DataError(
        f"{names[row]}: the target column {column.name!r} mixes numbers and names (here "
        f"{str(column.raw[row])[:40]!r}); correct it, or give the task: 'classification' takes "
        "all as names, for 'regression' rows without a number are bad"
    )


def _refuse_measurements(column: Column, names: Sequence[str]) -> None:
    number = column.number
    broken = np.flatnonzero(column.present & (number != np.floor(number)))
    if broken.size and not column.few():
        raise DataError(
            f"{names[broken[0]]}: the target column {column.name!r} holds measurements "
            f"({number[broken[0]]:g}), not classes; give the task 'regression', or bin them"
        )
