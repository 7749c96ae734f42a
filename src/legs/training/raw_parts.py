"""Rows of any input in parts that can be sent to other processes before the slow work on them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

from legs.data.errors import OnError
from legs.data.origins import resolve
from legs.training.fit import fingerprint
from legs.training.raw_input import InputPart, Reading, fitting, iter_input
from legs.training.raw_tables import RawRows, raw_rows


class Rows(Protocol):
    """Some rows of an input."""

    def __len__(self) -> int:
        """How many, those that cannot be used among them."""

    def read(self, reading: Reading) -> InputPart:
        """Their graphs."""

    def pieces(self, size: int) -> Iterator[Self]:
        """The same rows in the same order, about ``size`` at a time."""

    def digest(self) -> str:
        """Of all that the result depends on."""


def iter_rows(
    reading: Reading, path: str | Path, *, size: int, on_error: OnError = "raise"
) -> Iterator[Rows]:
    """The rows of an input in order, ``size`` at a time; the same parts whenever it is read.

    Only tables of molecules are read in parts; all else is read at once, and cut.

    Args:
        reading: how to read it.
        path: a file, a folder or the name of a data set.
        size: rows in a part.
        on_error: ``"raise"`` (default) stops at the first bad row; ``"skip"`` goes on.
    """
    from legs.data.tables import read_table

    source = resolve(path)
    if source.reader is read_table:
        yield from raw_rows(reading, source.arguments()[0], size, on_error)
        return
    for part in iter_input(reading, path, on_error=on_error):
        yield from ReadRows(part).pieces(size)


def read_rows(reading: Reading, rows: Rows) -> InputPart:
    """The graphs of some rows, with the node features of the model."""
    return fitting(reading, rows.read(reading))


@dataclass(frozen=True)
class ReadRows:
    """Rows whose graphs are there already: those of folders and of named data sets."""

    part: InputPart

    def __len__(self) -> int:
        return len(self.part.ids)

    def read(self, reading: Reading) -> InputPart:
        """The graphs."""
        return self.part

    def pieces(self, size: int) -> Iterator[ReadRows]:
        """See :class:`Rows`."""
        part = self.part
        for start in range(0, len(part.ids), size):
            here = slice(start, start + size)
            graphs = [k for k, row in enumerate(part.rows) if start <= row < start + size]
            yield ReadRows(
                replace(
                    part,
                    ids=part.ids[here],
                    smiles=part.smiles[here],
                    errors=part.errors[here],
                    data=None if part.data is None or not graphs else part.data.subset(graphs),
                    rows=[part.rows[k] - start for k in graphs],
                    where=part.where[here],
                    truth=None,
                )
            )

    def digest(self) -> str:
        """See :class:`Rows`."""
        known = "" if self.part.data is None else fingerprint(self.part.data)
        text = repr((known, self.part.ids, self.part.errors, self.part.rows))
        return hashlib.sha256(text.encode()).hexdigest()


def probe(reading: Reading, path: str | Path) -> InputPart | None:
    """One graph as the input would give it, where that is known without reading it: methane.

    Tells the names of node features, and errors of the choice of features, at once.
    """
    from legs.data.features import assemble
    from legs.data.molecules import raw_graphs, read_parallel
    from legs.data.tables import read_table

    if resolve(path).reader is not read_table:
        return None
    hydrogens = bool(reading.options.get("hydrogens", False))
    weights = bool(reading.options.get("bond_weights", False))
    raw = raw_graphs(
        read_parallel(["C"], hydrogens=hydrogens), hydrogens=hydrogens, bond_weights=weights
    )
    part = InputPart(["C"], ["C"], [""], assemble(raw, reading.features), [0], ["C"])
    return fitting(reading, part)


__all__ = ["RawRows", "ReadRows", "Rows", "iter_rows", "probe", "read_rows"]
