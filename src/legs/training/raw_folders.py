"""Folders of graph or structure files for a model: one row a file, in order."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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


def table_truth(
    folder: Path, source: Source, ids: Sequence[str], targets: Sequence[str]
) -> pd.DataFrame | None:
    """Targets of the files from a label table in the folder, one row an id; ``None`` without."""
    from legs.data.label_tables import list_files

    suffixes = sys.modules[source.reader.__module__].SUFFIXES
    try:
        listing = list_files(folder, suffixes, target=[], bad=BadRows("skip"))
    except DataError:
        return None
    if listing.frame is None:
        return None
    there = [name for name in targets if list(listing.frame.columns).count(name) == 1]
    if not there:
        return None
    frame = listing.frame[there].set_axis(listing.ids)
    return frame.reindex(list(ids)).reset_index(drop=True)
