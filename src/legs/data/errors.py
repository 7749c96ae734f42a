"""Errors in data, and lists of the rows that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from legs.io import BoundedError, csv_rows, write_atomically

OnError = Literal["raise", "skip"]
BAD_COLUMNS = ("where", "reason")  # of a list of bad rows


class DataError(BoundedError):
    """Data that cannot be used; the message says what, where and what to do."""


class DataWarning(UserWarning):
    """Data that can be used, but not in full, or whose scores may mislead."""


class BadRow(NamedTuple):
    """A row (or file) that cannot be used."""

    number: int | None  # its position in the source, where rows are numbered
    where: str  # what messages call it, such as "a.csv line 3"
    reason: str


@dataclass
class BadRows:
    """Collects rows (or files) that cannot be used, or raises for the first one.

    Args:
        on_error: ``"raise"`` (default) stops at the first bad row; ``"skip"`` drops and counts.

    >>> bad = BadRows("skip")
    >>> bad.add("row 3", "not a SMILES string: 'C1CC'")
    >>> len(bad), list(bad)
    (1, [('row 3', "not a SMILES string: 'C1CC'")])
    """

    on_error: OnError = "raise"
    rows: list[BadRow] = field(default_factory=list)

    def add(self, where: str, reason: str, number: int | None = None) -> None:
        """Records a bad row, or raises :class:`DataError`."""
        if self.on_error == "raise":
            raise DataError(f"{where}: {reason} (on_error='skip' drops such rows)")
        self.rows.append(BadRow(number, where, reason))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Where each row is, and why it cannot be used."""
        return ((row.where, row.reason) for row in self.rows)


STRICT = BadRows()  # keeps no row, so that one serves all


def write_bad_rows(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Writes a CSV file of bad rows: where, reason."""
    text = csv_rows([BAD_COLUMNS, *rows])
    write_atomically(path, text.encode("utf-8", "surrogateescape"))


def is_bad_rows(path: Path) -> bool:
    """Whether a file is one that :func:`write_bad_rows` wrote."""
    header = ",".join(BAD_COLUMNS).encode()
    try:
        with path.open("rb") as file:
            return file.read(len(header) + 2).splitlines()[:1] == [header]
    except OSError:
        return False


def require(message: str, *modules: str) -> None:
    """Raises :class:`DataError` where one of these modules is not installed."""
    try:
        for module in modules:
            import_module(module)
    except ImportError as error:
        raise DataError(f"{message} ({error})") from error


def listed(names: Iterable[Any], most: int = 12) -> str:
    """Names for a message, cut short where they are many."""
    shown = [str(name)[:40] for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")
