"""One column of a table: what sort of values it holds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from legs.data.errors import DataError

MOST_CLASSES = 20
Array: TypeAlias = np.ndarray[Any, Any]
Kind: TypeAlias = Literal["names", "truth", "integers", "floats", "mixed"]
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)


class Column(NamedTuple):
    """A column with its values as numbers, where they are numbers."""

    name: str
    kind: Kind
    raw: Array  # [rows], as given
    number: Array  # [rows] float64, NaN where there is none
    present: Array  # [rows] bool

    def few(self) -> bool:
        """Few enough distinct values, often enough, to be classes."""
        distinct = pd.unique(self.number[self.present]).size
        return bool(distinct <= MOST_CLASSES and 2 * distinct <= self.present.sum())

    def looks_like_classes(self) -> bool:
        """Whether the values are classes where nobody says what they are."""
        return self.kind in ("names", "truth") or (self.kind == "integers" and self.few())


def parse_column(column: pd.Series[Any], names: Sequence[str]) -> Column:
    """Sorts the values of a column; ``names`` are what messages call its rows.

    >>> parse_column(pd.Series(["1", "2", ""]), ["a", "b", "c"]).kind
    'integers'
    """
    present = column.notna().to_numpy(dtype=bool, copy=True)
    dtype = column.dtype
    kind: Kind
    if pd.api.types.is_bool_dtype(dtype):
        kind, number = "truth", column.to_numpy(dtype=float, na_value=np.nan)
    elif pd.api.types.is_integer_dtype(dtype):
        kind, number = "integers", column.to_numpy(dtype=float, na_value=np.nan)
    elif pd.api.types.is_float_dtype(dtype):
        number = column.to_numpy(dtype=float, na_value=np.nan)
        whole = bool((number[present] == np.floor(number[present])).all())
        kind = "integers" if whole and not present.all() else "floats"
    else:
        return _objects(column, present, names)
    return Column(str(column.name), kind, column.to_numpy(dtype=object), number, present)


def _objects(column: pd.Series[Any], present: Array, names: Sequence[str]) -> Column:
    raw = column.to_numpy(dtype=object)
    # Blank text is a gap, as it is where pandas reads a CSV file.
    present &= np.array([not (isinstance(v, str) and not v.strip()) for v in raw], dtype=bool)
    for row in np.flatnonzero(present).tolist():
        if not isinstance(raw[row], (str, Real, Decimal, np.bool_)):
            raise DataError(
                f"{names[row]}: the target column {str(column.name)!r} holds a "
                f"{type(raw[row]).__name__}; targets are numbers, names or true/false"
            )
    number = np.array([_number(value) for value in raw], dtype=float)
    # "inf" is a number here, if a bad one; text that says "nan" is a name.
    numeric = ~np.isnan(number[present])
    truth = np.array([isinstance(value, (bool, np.bool_)) for value in raw[present]], dtype=bool)
    kind: Kind
    if isinstance(column.dtype, pd.CategoricalDtype) or not numeric.any():
        kind = "names"
    elif truth.all():
        kind = "truth"
    elif truth.any() or not numeric.all():
        kind = "mixed"
    else:
        text = [str(value) for value in raw[present]]
        kind = "integers" if all(_INTEGER.fullmatch(t) for t in text) else "floats"
    return Column(str(column.name), kind, raw, number, present)


def pick_column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """The column of that name, or an error that lists the columns there are."""
    matches = [i for i, column in enumerate(frame.columns) if str(column) == name]
    if not matches:
        raise DataError(f"there is no column {name!r}; there are {listed(frame.columns)}")
    if len(matches) > 1:
        raise DataError(f"there are {len(matches)} columns named {name!r}; rename all but one")
    return frame.iloc[:, matches[0]]


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def listed(names: Iterable[Any], most: int = 12) -> str:
    """Names for a message, cut short where they are many.

    >>> listed(["mu", "alpha", "gap"], most=2)
    'mu, alpha and 1 more'
    """
    shown = [str(name)[:40] for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")
