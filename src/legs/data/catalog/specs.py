"""What a name or a path stands for: a reader, and the files it reads.

``datasets.csv`` and ``tudataset.csv`` beside this file list the named sets, the latter with the
published digests of the downloads.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from legs.data.catalog import fetch
from legs.data.errors import DataError
from legs.data.readers.table_files import SUFFIXES as TABLES
from legs.data.readers.table_files import require_pandas
from legs.io import expand_user

if TYPE_CHECKING:
    from legs.data.readers.base import Reader

TU_ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets/{}.zip"

Kind = Literal["graphs", "molecules", "structures"]
Origin = Literal["LEGS_DATA", "cache", "package", "download", "by hand"]


class Spec(NamedTuple):
    """A data set known by name.

    ``places`` lists where its reader looks, in that order: each place is all the files needed
    there, below the data folder or the cache, or, after ``package:``, inside an installed package.
    """

    name: str
    kind: Kind
    graphs: int | None  # None: not known before it is there
    reader: str  # see _named_reader
    places: tuple[tuple[str, ...], ...]
    argument: str | None = None  # of the reader
    licence: str = "none stated (TUDataset)"
    note: str = ""
    url: str | None = None
    sha256: str | None = None  # as published, of the download

    @property
    def origin(self) -> Origin:
        """Where it was found, or comes from."""
        if located := locate(self):
            return located[0]
        return "download" if self.url else "package" if ":" in self.places[0][0] else "by hand"

    @property
    def where(self) -> str:
        """A path, an address, or what to do."""
        if located := locate(self):
            return str(located[1][0])
        package, in_package, file = self.places[0][0].rpartition(":")
        by_hand = (
            f"install {package}" if in_package else f"set {fetch.VARIABLE} to a folder with {file}"
        )
        return self.url or by_hand

    @property
    def size(self) -> int | None:
        """Bytes on disk."""
        if (located := locate(self)) is None:
            return None
        files = (file for path in located[1] for file in (path, *path.rglob("*")))
        return sum(file.stat().st_size for file in files if file.is_file())


def _rows(file: str) -> dict[str, dict[str, str]]:
    with (Path(__file__).parent / file).open(newline="", encoding="utf-8") as table:
        return {row["name"]: row for row in csv.DictReader(table)}


_TU, _OTHERS = _rows("tudataset.csv"), _rows("datasets.csv")


def tu(name: str) -> Spec:
    """A set of the TUDataset collection."""
    row = _TU.get(name, {})
    graphs, places = int(row.get("graphs") or 0) or None, ((f"tu/{name}.zip",),)
    sha256 = row.get("sha256") or None
    return Spec(name, "graphs", graphs, "tu", places, url=TU_ADDRESS.format(name), sha256=sha256)


def _other(row: dict[str, str]) -> Spec:
    fields: dict[str, Any] = {k: v for k, v in row.items() if v and k != "aliases"}
    fields["graphs"] = int(row["graphs"] or 0) or None
    fields["places"] = tuple(tuple(place.split()) for place in row["places"].split("|"))
    return Spec(**fields)


NAMED: dict[str, Spec] = {
    **{name: tu(name) for name, row in _TU.items() if row["graphs"]},
    **{name: _other(row) for name, row in _OTHERS.items()},
}
ALIASES = {a: name for name, row in (_TU | _OTHERS).items() for a in row["aliases"].split()}
# The rest of the TUDataset collection, to correct case and to suggest what a typo means; a name
# that is missing here is tried all the same.
COLLECTION = tuple(name for name in _TU if name not in NAMED)


def lookup(name: str) -> Spec | None:
    """A set of :data:`NAMED` by its name or a short form of it, in any case, or ``None``."""
    names = ALIASES | {_folded(each): each for each in NAMED}
    return NAMED.get(names.get(_folded(name), ""))


def lookup_tu(name: str) -> Spec:
    """Any set of the TUDataset collection by its name; those listed here in any case."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or len(name) > 100:
        raise DataError(f"there is no data set {name!r}.{suggestion(name)}")
    spelled = {_folded(each): each for each in (*COLLECTION, *_local())}
    return tu(spelled.get(_folded(name), name))


def suggestion(name: str) -> str:
    """A sentence that suggests a set of a similar name, after a space; else empty."""
    names = {_folded(n): n for n in (*COLLECTION, *ALIASES, *_local(), *NAMED)}
    near = difflib.get_close_matches(_folded(name), names, n=1, cutoff=0.6)
    return f" Did you mean {names[near[0]]}?" if near else ""


def locate(spec: Spec) -> tuple[Origin, list[Path]] | None:
    """The files of a set where they are available without a download, or ``None``."""
    for place in spec.places:
        paths = [path for file in place if (path := _find(file)) is not None]
        if len(paths) == len(place):
            cached = paths[0].is_relative_to(fetch.cache_dir())
            return "package" if ":" in place[0] else "cache" if cached else "LEGS_DATA", paths
    return None


def _find(file: str) -> Path | None:
    package, in_package, inside = file.partition(":")
    return fetch.find_in_package(package, inside) if in_package else fetch.find(file)


def available() -> list[Spec]:
    """All sets known by name, and sets in TUDataset's layout in the data folder or cache.

    >>> [each.origin for each in available() if each.name == "nci-5k"]
    ['package']
    """
    return [*NAMED.values(), *(tu(name) for name in _local() if lookup(name) is None)]


def _local() -> list[str]:
    """Names of the sets in ``tu/`` of the data folder and the cache."""
    folders = [folder for folder in (fetch.data_dir(), fetch.cache_dir()) if folder]
    return sorted({path.stem for folder in folders for path in folder.glob("tu/*.zip")})


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-")


@dataclass(frozen=True)
class Source:
    """Where a set is read from, and how."""

    name: str
    reader: Reader
    arguments: Callable[[], tuple[Any, ...]]  # of the reader; may download
    files: Callable[[], list[Path] | None]  # those it reads, or None where they are not there yet
    info: dict[str, Any] = field(default_factory=dict)

    def take(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of the reader; others are an error."""
        for name in {*options} - self.reader.options - {"target", "task"}:
            raise DataError(f"{name}= does not apply to {self.name}")
        return {name: v for name, v in options.items() if name in self.reader.options}


def resolve(name_or_path: str | Path) -> Source:
    """Finds out what a name or path stands for; reads nothing yet.

    Names of :data:`NAMED` come first, then files, then other names of the TUDataset collection;
    ``./MUTAG`` is always a path.
    """
    name = str(name_or_path)
    is_name = isinstance(name_or_path, str) and not any(c in name for c in "/\\")
    spec = lookup(name) if is_name else None
    if spec is not None:
        return _named(spec)
    path = expand_user(name_or_path)
    if path.exists():
        return Source(path.stem, _reader_of(path), lambda: (path,), lambda: [path])
    if not is_name or path.name.lower().endswith((*TABLES, ".zip", ".gz")):
        raise DataError(f"{path}: no such file or folder")
    return _named(lookup_tu(name))


def _named(spec: Spec) -> Source:
    def arguments() -> tuple[Any, ...]:
        if spec.reader != "tu":
            return () if spec.argument is None else (spec.argument,)
        try:
            return (fetch.require(spec.places[0][0], url=spec.url, sha256=spec.sha256),)
        except DataError as error:
            if spec.name in NAMED:
                raise
            hint = suggestion(spec.name)
            raise DataError(f"there is no data set {spec.name!r} here.{hint} ({error})") from error

    info = {"named": True, "licence": spec.licence} | ({"note": spec.note} if spec.note else {})
    reader = _named_reader(spec.reader)
    return Source(spec.name, reader, arguments, lambda: (locate(spec) or (None, None))[1], info)


def _named_reader(name: str) -> Reader:
    if name == "tu":
        from legs.data.catalog.tu import READER

        return READER
    require_pandas()
    from legs.data.catalog import molecules, structures

    return {**molecules.READERS, **structures.READERS}[name]


def _reader_of(path: Path) -> Reader:
    from legs.data.catalog import tu
    from legs.data.readers import graph_files, structures, tables

    name = path.name.lower()
    if name.endswith(".safetensors"):
        raise DataError(f"{path} is a prepared data set: legs.data.load_dataset reads it")
    if name.endswith(".zip") or (path.is_dir() and tu.is_tu(path)):
        return tu.READER
    if path.is_dir():
        structured = any(p.name.lower().endswith(structures.SUFFIXES) for p in path.iterdir())
        return structures.READER if structured else graph_files.READER
    if name.removesuffix(".gz").endswith(TABLES):
        return tables.READER
    raise DataError(
        f"{path}: cannot tell what this is; a file is one of .zip, {', '.join(TABLES)}, "
        "graphs and structures come in folders"
    )
