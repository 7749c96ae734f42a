"""Cells of CSV files that spreadsheets open: text that looks like a formula stays text.

A text cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end, and is not a number,
gets an apostrophe in front, as spreadsheets advise. Our readers remove it again.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_BEGIN = "[=+\\-@\t\r\n＝＋－＠]"  # the last four: full-width forms, which some spreadsheets read
_FORMULA = re.compile(f"'*{_BEGIN}")
_GUARDED = re.compile(f"'+{_BEGIN}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")


def safe_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula.

    >>> safe_cell("=1+1"), safe_cell("-1.5"), safe_cell("CCO")
    ("'=1+1", '-1.5', 'CCO')
    """
    formula = _FORMULA.match(text) is not None and not _NUMBER.fullmatch(text)
    return f"'{text}" if formula else text


def plain_cell(text: str) -> str:
    """The inverse of :func:`safe_cell`."""
    return text[1:] if _GUARDED.match(text) else text


def csv_table(frame: pd.DataFrame, separator: str = ",", header: bool = True) -> str:
    """A table as CSV, with :func:`safe_cell` for names and text."""
    safe = _map_text(safe_cell, frame)
    return safe.to_csv(sep=separator, index=False, header=header, lineterminator="\n")


def csv_rows(rows: Iterable[Sequence[str]]) -> str:
    """Rows of text as CSV, with :func:`safe_cell`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([map(safe_cell, row) for row in rows])
    return text.getvalue()


def plain_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """A table that was read, with :func:`plain_cell` for names and text."""
    return _map_text(plain_cell, frame)


def _map_text(function: Callable[[str], str], frame: pd.DataFrame) -> pd.DataFrame:
    from pandas.api.types import is_numeric_dtype

    mapped = frame.copy(deep=False)
    for place, dtype in enumerate(frame.dtypes):
        if not is_numeric_dtype(dtype):
            cells = frame.iloc[:, place].map(lambda v: function(v) if isinstance(v, str) else v)
            mapped.isetitem(place, cells.array)
    mapped.columns = [function(str(name)) for name in frame.columns]
    return mapped
