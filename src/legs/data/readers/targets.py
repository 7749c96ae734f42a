"""Targets from the columns of a table: classes or continuous targets, one rule for every reader.

The rule, where the task is not set:

* One column of names (text, true/false, a pandas category): classification.
* One column of integers: classification if it has at most :data:`MOST_CLASSES` distinct values and
  at least two rows per value on average, regression otherwise. A float column of whole numbers
  *with gaps* counts as integers: pandas makes floats of integers with missing values.
* One column of other floats: regression, even if they are whole numbers and few.
* Text that reads as numbers throughout counts as numbers.
* Several columns: regression. Columns that would all be classes, or one that holds names, are
  refused: classification takes one column.

The task can be set instead. ``"classification"`` takes any values as classes; ``"regression"``
takes true/false as 1 and 0, and rows whose value is no number are bad. ``"multilabel"`` takes
columns of 0 and 1, or true/false, each a label that a graph has or not; values may be missing.

Numbers follow one strict pattern: Python's ``float`` also takes ``1_0`` and digits of other
scripts, which are typing errors or ids in a table.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from legs.data.errors import STRICT, BadRows, DataError, listed

if TYPE_CHECKING:  # the command line reads numbers before it needs PyTorch
    import pandas as pd
    from torch import Tensor

    from legs.data.dataset import Task

MOST_CLASSES = 20
Array: TypeAlias = np.ndarray[Any, Any]
Kind: TypeAlias = Literal["names", "truth", "integers", "floats", "mixed"]
Table: TypeAlias = "pd.DataFrame | Mapping[str, Any]"  # columns by name
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(rf"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){_EXPONENT}")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_COMMA = re.compile(rf"[+-]?(?:[0-9]+,[0-9]*|,[0-9]+){_EXPONENT}")
# 1,234 is 1.234 or 1234.
_EITHER = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
_THOUSANDS = re.compile(
    r"[+-]?[0-9]{1,3}(?:(?:,[0-9]{3})+\.[0-9]*|(?:,[0-9]{3}){2,}|"
    r"(?:\.[0-9]{3})+,[0-9]*|(?:\.[0-9]{3}){2,})"
)
# A bound, such as >7.5, and no measurement.
_CENSORED = re.compile(r"(?:[<>]=?|=[<>]|[≤≥⩽⩾~≈≲≳])\s*[+-]?(?:[0-9]|[.,][0-9]).*")
_TRUTH = (bool, np.bool_)
_USUAL_NAMES = ("target", "targets", "label", "labels", "y", "class")


class Column(NamedTuple):
    """A column with its values as numbers, where they are numbers."""

    name: str
    kind: Kind
    raw: Array  # [rows], as read; None where missing
    number: Array  # [rows] float64, NaN where the value is not a number
    present: Array  # [rows] bool
    where: Sequence[str]  # what messages call the rows
    comma: bool | None = None  # whether commas are decimal; None if undecided
    refusal: str = ""  # why its text cannot be read as numbers, although it looks like them

    def few(self) -> bool:
        """Few enough distinct values, often enough, to be classes."""
        distinct = np.unique(self.number[self.present]).size
        return bool(distinct <= MOST_CLASSES and 2 * distinct <= self.present.sum())

    def looks_like_classes(self) -> bool:
        """Whether the values are classes where the task is not set."""
        return self.kind in ("names", "truth") or (self.kind == "integers" and self.few())

    def holds(self, row: int) -> str:
        """What messages say of the value in a row."""
        return f"the target column {self.name!r} holds {str(self.raw[row])[:40]!r}"

    def not_finite(self, row: int) -> str:
        """Why the value in a row cannot be regressed."""
        if not _CENSORED.fullmatch(str(self.raw[row]).strip()):
            return f"{self.holds(row)}, not a finite number"
        what = "a censored value: a bound, not a measurement. Replace it or drop the row"
        return f"{self.holds(row)}, {what}"


def parse_column(name: str, values: Any, where: Sequence[str], comma: bool | None = None) -> Column:
    """Finds out what a column, an array or a pandas Series, holds.

    ``comma`` says whether commas are decimal, if other parts of the column have shown it.
    """
    dtype = values.dtype
    if hasattr(values, "to_numpy"):  # pandas
        raw = values.to_numpy(dtype=object, na_value=None)
    else:
        raw = np.asarray(values).astype(object)
    present = np.array([not _is_missing(value) for value in raw], dtype=bool)
    kind: Kind
    if dtype.kind in "biuf":
        number = np.where(present, raw, math.nan).astype(float)
        kind = "truth" if dtype.kind == "b" else "integers"
        if dtype.kind == "f" and (present.all() or (number != np.floor(number))[present].any()):
            kind = "floats"
        return Column(name, kind, raw, number, present, where)
    number = np.full(len(raw), math.nan)
    marked: dict[str, list[int]] = {"": [], ".": [], ",": [], "thousands": []}
    for row in np.flatnonzero(present).tolist():
        if isinstance(raw[row], str):
            number[row], mark = read_number(raw[row])
            marked[mark].append(row)
        elif not isinstance(raw[row], (Real, Decimal, np.bool_)):
            raise DataError(
                f"{where[row]}: the target column {name!r} holds a "
                f"{type(raw[row]).__name__}; targets are numbers, names or true/false"
            )
        else:
            with suppress(ValueError, OverflowError):
                number[row] = float(raw[row])
    # "inf" is a number here, if a bad one; text that says "nan" is a name.
    numeric = ~np.isnan(number[present])
    truth = np.array([isinstance(value, _TRUTH) for value in raw[present]], dtype=bool)
    if dtype == "category" or not numeric.any():
        kind = "names"
    elif truth.all():
        kind = "truth"
    elif truth.any() or not numeric.all():
        kind = "mixed"
    else:
        whole = all(_INTEGER.fullmatch(str(value)) for value in raw[present])
        kind = "integers" if whole else "floats"
    column = Column(name, kind, raw, number, present, where)
    return column._replace(
        comma=True if marked[","] else False if marked["."] else comma,
        refusal=_refusal(column, marked, comma),
    )


def _is_missing(value: Any) -> bool:
    # Blank text is missing, as it is where pandas reads a CSV file.
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, Real | Decimal) and value != value)


def _refusal(column: Column, marked: dict[str, list[int]], comma: bool | None) -> str:
    """Why rows of numbers with these marks cannot be read: one decimal mark serves all."""
    points, commas, thousands = (marked[mark] for mark in (".", ",", "thousands"))
    if thousands:
        row, reason = thousands[0], "has thousands separators"
    elif commas and (points or comma is False):
        row, reason = commas[0], "has a comma, others a point"
        if points:
            reason += f" ({column.raw[points[0]][:40]!r} in {column.where[points[0]]})"
    elif points and comma:
        row, reason = points[0], "has a point, others a comma"
    elif commas and not comma and all(_EITHER.fullmatch(column.raw[row].strip()) for row in commas):
        row, reason = commas[0], "has a decimal comma or a thousands separator"
    else:
        return ""
    return (
        f"{column.where[row]}: {column.holds(row)}, which {reason}; write all its numbers with a "
        "decimal point and nothing between thousands"
    )


def read_number(text: str) -> tuple[float, str]:
    """The number that a text is, or NaN, and its mark: ``"."``, ``","``, ``"thousands"``, none."""
    bare = text.strip()
    if _NUMBER.fullmatch(bare) or _INFINITE.fullmatch(bare):
        return float(bare), "." if "." in bare else ""
    if _COMMA.fullmatch(bare):
        return float(bare.replace(",", ".")), ","
    if _THOUSANDS.fullmatch(bare):  # looks like a number; never used as one
        return float(re.sub("[.,]", "", bare)), "thousands"
    return math.nan, ""


def parse_number(text: str) -> float:
    """The number that a text is, with a decimal point; infinite where it says so."""
    value, mark = read_number(text)
    if math.isnan(value) or mark in (",", "thousands"):
        raise DataError(f"{text[:40]!r} is not a number")
    return value


def find_column(columns: Sequence[str], name: str, what: str = "column") -> str:
    """A column by its name, or an error with the nearest name there is."""
    count = list(columns).count(name)
    if count > 1:
        raise DataError(f"there are {count} columns named {name!r}; rename all but one")
    if count:
        return name
    folded = {column.casefold(): column for column in columns}
    near = difflib.get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.5)
    hint = f"did you mean {folded[near[0]]!r}? " if near else ""
    raise DataError(f"there is no {what} {name!r}; {hint}There are: {listed(columns)}")


class Targets(NamedTuple):
    """The targets of the rows that can be used."""

    y: Tensor  # [used rows] int64 classes, or [used rows, columns] float32 numbers
    task: Task
    class_names: tuple[str, ...]  # sorted: numbers by value, names by alphabet; () for numbers
    target_names: tuple[str, ...]
    used: np.ndarray[Any, np.dtype[np.bool_]]  # [rows of the table]

    def fields(self) -> dict[str, Any]:
        """What a data set says of its targets."""
        return {name: getattr(self, name) for name in ("y", "task", "class_names", "target_names")}


def encode_targets(
    table: Table,
    columns: Sequence[str],
    task: Task | None = None,
    *,
    bad: BadRows = STRICT,
    where: Sequence[str] | None = None,
) -> Targets:
    """Encodes target columns as classes or numbers, by the rule at the top of this module.

    Call it on the rows whose graphs could be read, so that no class is left without a graph; then
    drop the graphs that are not ``used``. In regression on several columns, rows with some targets
    are kept, with NaN for the others. ``bad`` collects rows with missing or infinite targets
    (default: the first one raises); messages call them ``where``, by default ``row 1``, …
    """
    from torch import from_numpy

    if task not in (None, "classification", "regression", "multilabel"):
        raise DataError(f"the task is 'classification', 'regression' or 'multilabel', not {task!r}")
    if not columns or len(set(columns)) < len(columns):
        raise DataError(f"target columns must be distinct, and at least one: {listed(columns)}")
    for name in columns:
        find_column([str(column) for column in table], name)
    values = [v if hasattr(v, "iloc") else np.asarray(v) for v in (table[name] for name in columns)]
    names = [f"row {i + 1}" for i in range(len(values[0]))] if where is None else list(where)
    parsed = [parse_column(*column, names) for column in zip(columns, values, strict=True)]
    for k, column in enumerate(parsed):
        if column.refusal and task == "classification":
            parsed[k] = column._replace(kind="names")
        elif column.refusal and (task or column.kind == "floats"):
            raise DataError(column.refusal)
    present = np.stack([column.present for column in parsed], axis=1)
    used: Array = np.asarray(present.any(axis=1))
    for row in np.flatnonzero(~used).tolist():
        bad.add(names[row], f"no value in the target column {columns[0]!r}")
    for column in parsed:
        if not column.present.any():
            raise DataError(f"no row has a value in the target column {column.name}")
    task, asked = task or _detect(parsed), task is not None
    if task != "classification":
        for name in (column.name for column in parsed if column.kind == "names"):
            takes = "regression takes numbers" if task == "regression" else "labels are 0 or 1"
            raise DataError(f"the target column {name!r} holds names; {takes}")
        with np.errstate(over="ignore"):
            y = np.stack([column.number for column in parsed], axis=1).astype(np.float32)
        broken = ~np.isfinite(y) & present
        for row in np.flatnonzero(broken.any(axis=1)).tolist():
            bad.add(names[row], parsed[int(np.argmax(broken[row]))].not_finite(row))
        if task == "multilabel":
            other = present & ~broken & (y != 0) & (y != 1)
            for row in np.flatnonzero(other.any(axis=1)).tolist():
                holds = parsed[int(np.argmax(other[row]))].holds(row)
                bad.add(names[row], f"{holds}, not 0 or 1")
            broken |= other
        used &= ~broken.any(axis=1)
        if not used.any():
            raise DataError(f"no row has a finite number in the target column(s) {listed(columns)}")
        return Targets(from_numpy(y[used]), task, (), tuple(columns), used)
    if len(parsed) > 1:
        raise DataError(
            f"classification takes one target column, not {len(parsed)} "
            f"({listed(columns)}); task='multilabel' takes several columns of 0 and 1"
        )
    column = parsed[0]
    if column.kind in ("integers", "floats"):
        for row in np.flatnonzero(np.isinf(column.number)).tolist():
            bad.add(names[row], f"the target column {column.name!r} is infinite")
            used[row] = column.present[row] = False
    classes, class_names = _classes(column, asked=asked)
    return Targets(from_numpy(classes), "classification", class_names, tuple(columns), used)


def find_targets(
    columns: Sequence[str], target: str | Sequence[str] | None = None, *, other: Sequence[str] = ()
) -> list[str]:
    """The target columns of a table: those named, or the likely one.

    Without ``target``: the only column named target, label, y or class, or the only one besides
    ``other`` (ids, SMILES, file names); no further column: no targets (``[]``).
    """
    if target is not None:
        names = [target] if isinstance(target, str) else list(target)
        if len(set(names)) < len(names):
            raise DataError(f"a target is named twice: {', '.join(names)}")
        return [find_column(columns, name, "target column") for name in names]
    free = [name for name in columns if name not in other]
    usual = [name for name in free if name.strip().lower() in _USUAL_NAMES]
    likely = usual if len(usual) == 1 else free
    if len(likely) > 1:
        raise DataError(
            f"which column is the target? There are {listed(free)}; name one or more (target=)"
        )
    return likely


def _detect(columns: Sequence[Column]) -> Task:
    if len(columns) == 1:
        # _classes names the row of a mixed column.
        classes = columns[0].kind == "mixed" or columns[0].looks_like_classes()
        return "classification" if classes else "regression"
    if all(column.looks_like_classes() for column in columns):
        raise DataError(
            f"the target columns {listed(c.name for c in columns)} all look like classes: name "
            "one of them, or take 0 and 1 as labels with task='multilabel', or all as numbers with "
            "task='regression'"
        )
    for column in columns:
        if column.kind == "mixed":
            raise _mixture(column)
        if column.kind == "names":
            raise DataError(
                f"the target column {column.name!r} holds names; several targets at once are "
                "regressed and must be numbers"
            )
    return "regression"


def _classes(column: Column, *, asked: bool) -> tuple[Array, tuple[str, ...]]:
    if column.kind == "mixed" and not asked:
        raise _mixture(column)
    if column.kind in ("integers", "floats"):
        number = column.number
        measured = np.flatnonzero(column.present & (number != np.floor(number)))
        if measured.size and not column.few():
            raise DataError(
                f"{column.where[measured[0]]}: the target column {column.name!r} holds "
                f"measurements ({number[measured[0]]:g}), not classes; choose task='regression', "
                "or bin them"
            )
        ordered, y = np.unique(number[column.present], return_inverse=True)
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
            f"{len(y)} rows: ids rather than classes? Name another column, or choose "
            "task='classification' if they are meant"
        )
    return y.astype(np.int64), class_names


def _mixture(column: Column) -> DataError:
    """Names a row of a column that mixes numbers and names."""
    rows = np.flatnonzero(column.present).tolist()
    for row in rows:
        if _CENSORED.fullmatch(str(column.raw[row]).strip()):
            return DataError(
                f"{column.where[row]}: {column.not_finite(row)} (task='regression' with "
                "on_error='skip' drops such rows)"
            )
    sorts = [(math.isnan(column.number[k]), isinstance(column.raw[k], _TRUTH)) for k in rows]
    rarest, _ = Counter(sorts).most_common()[-1]  # of equals, the one that comes later
    row = rows[sorts.index(rarest)]
    return DataError(
        f"{column.where[row]}: the target column {column.name!r} mixes numbers and names (here "
        f"{str(column.raw[row])[:40]!r}); correct it, or choose the task: task='classification' "
        "takes all as names, with task='regression' rows without a number are bad"
    )
