"""Folders of graph or structure files for a model: one row a file, in order."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from legs.data.errors import BadRows, DataError
from legs.data.origins import Source

if TYPE_CHECKING:
    import pandas as pd

Entry = tuple[str, str, int]  # id or file, reason or "", number of the graph or -1


def in_order(folder: Path, ids: Sequence[str], bad: Sequence[Sequence[str]]) -> list[Entry]:
    """Graphs and bad files in the order of the files; what is wrong elsewhere comes last.

    Args:
        folder: of the files.
        ids: of the graphs: file names, with or without their endings.
        bad: file names and reasons.
    """
    place: dict[str, int] = {}
    for number, file in enumerate(sorted(p for p in folder.iterdir() if p.is_file())):
        place.setdefault(file.stem, number)
        place[file.name] = number
    last = len(place)
    entries: list[tuple[int, Entry]] = [
        (place.get(name, last), (name, "", i)) for i, name in enumerate(ids)
    ]
    entries += [(place.get(where, last), (where, why, -1)) for where, why in bad]
    return [entry for _, entry in sorted(entries, key=lambda pair: pair[0])]


class Labels(NamedTuple):
    """A table of labels in the folder."""

    ids: list[str]  # of the files it names
    frame: pd.DataFrame  # a row a file

    def truth(self, ids: Sequence[str], targets: Sequence[str]) -> pd.DataFrame | None:
        """Target columns that the table has, one row an id; ``None`` without."""
        there = [name for name in targets if list(self.frame.columns).count(name) == 1]
        if not there:
            return None
        frame = self.frame[there].set_axis(self.ids)
        return frame.reindex(list(ids)).reset_index(drop=True)


def label_table(folder: Path, source: Source) -> Labels | None:
    """The table of labels, if the folder has one that can be used."""
    from legs.data.label_tables import list_files

    suffixes = sys.modules[source.reader.__module__].SUFFIXES
    try:
        listing = list_files(folder, suffixes, target=[], bad=BadRows("skip"))
    except DataError:  # none there; what else is wrong is told when the files are read
        return None
    return None if listing.frame is None else Labels(listing.ids, listing.frame)
