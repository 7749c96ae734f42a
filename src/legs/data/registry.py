"""Sets by name: found by their names, and in the places they may lie."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Literal, NamedTuple

from legs.data import sources
from legs.data.catalogue import ALIASES, COLLECTION, NAMED, Kind, Known, tu
from legs.data.errors import DataError

Origin = Literal["LEGS_DATA", "cache", "package", "download", "by hand"]


class Available(NamedTuple):
    """A data set, and where it was found or comes from."""

    name: str
    kind: Kind
    graphs: int | None
    origin: Origin
    where: str  # path, address, or what to do
    size: int | None  # bytes on disk
    licence: str
    note: str


def lookup(name: str) -> Known | None:
    """A set of :data:`NAMED` by its name or a short form of it, in any case; ``None`` if unknown.

    >>> lookup("ptc").name, lookup("imdb-b").name, lookup("QM9").name
    ('PTC_MR', 'IMDB-BINARY', 'qm9')
    """
    folded = _folded(name)
    names = {_folded(known): known for known in NAMED}
    return NAMED.get(names.get(folded) or ALIASES.get(folded, ""))


def lookup_tu(name: str) -> Known:
    """Any set of the TUDataset collection by its name; those listed here in any case.

    Raises:
        DataError: no set can have that name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or len(name) > 100:
        raise DataError(f"there is no data set {name!r}.{suggestion(name)}")
    spelled = {_folded(known): known for known in (*COLLECTION, *_local())}
    return tu(spelled.get(_folded(name), name))


def suggestion(name: str) -> str:
    """A sentence naming the set that may have been meant, with a space before it; else empty.

    >>> suggestion("MUTGA")
    ' Did you mean MUTAG?'
    """
    names = {_folded(n): n for n in (*COLLECTION, *ALIASES, *_local(), *NAMED)}
    near = difflib.get_close_matches(_folded(name), names, n=1, cutoff=0.6)
    return f" Did you mean {names[near[0]]}?" if near else ""


def locate(known: Known) -> tuple[Origin, list[Path]] | None:
    """The files of a set where they are to be had without a download, or ``None``."""
    for place in known.places:
        found = [_find(file) for file in place]
        paths = [path for path in found if path is not None]
        if len(paths) == len(place):
            return _origin(place[0], paths[0]), paths
    return None


def _find(file: str) -> Path | None:
    package, colon, inside = file.partition(":")
    return sources.find_in_package(package, inside) if colon else sources.find(file)


def _origin(file: str, path: Path) -> Origin:
    if ":" in file:
        return "package"
    return "cache" if path.is_relative_to(sources.cache_dir()) else "LEGS_DATA"


def available() -> list[Available]:
    """All sets known by name, and sets in TUDataset's layout lying in the data folder or cache.

    >>> [each.origin for each in available() if each.name == "nci-5k"]
    ['package']
    """
    others = [tu(name) for name in _local() if lookup(name) is None]
    return [_describe(known) for known in (*NAMED.values(), *others)]


def _describe(known: Known) -> Available:
    place = locate(known)
    origin: Origin
    size = None
    package, colon, _ = known.places[0][0].partition(":")
    if place is not None:
        origin, paths = place
        where = str(paths[0])
        size = sum(_size(path) for path in paths)
    elif known.url is not None:
        origin, where = "download", known.url
    elif colon:
        origin, where = "package", f"install {package}"
    else:
        origin, where = "by hand", f"set {sources.VARIABLE} to a folder with {known.places[0][0]}"
    return Available(
        known.name, known.kind, known.graphs, origin, where, size, known.licence, known.note
    )


def _local() -> list[str]:
    """Names of the sets in ``tu/`` of the data folder and the cache."""
    folders = [folder for folder in (sources.data_dir(), sources.cache_dir()) if folder]
    return sorted({path.stem for folder in folders for path in folder.glob("tu/*.zip")})


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-")
