"""What can be wrong with data, said to a person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from legs.files import BoundedError

OnError = Literal["raise", "skip"]


class DataError(BoundedError):
    """Data that cannot be used; the message says what, where and what to do."""


@dataclass
class BadRows:
    """Collects rows (or files) that cannot be used, or stops at the first one.

    Args:
        on_error: ``"raise"`` (default) stops at the first bad row; ``"skip"`` drops and counts.

    >>> bad = BadRows("skip")
    >>> bad.add("row 3", "not a SMILES string: 'C1CC'")
    >>> len(bad), list(bad)
    (1, [('row 3', "not a SMILES string: 'C1CC'")])
    """

    on_error: OnError = "raise"
    rows: list[tuple[str, str]] = field(default_factory=list)

    def add(self, where: str, reason: str) -> None:
        """Notes a bad row, or raises :class:`DataError`."""
        if self.on_error == "raise":
            raise DataError(f"{where}: {reason} (--on-error skip drops such rows)")
        self.rows.append((where, reason))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.rows)
