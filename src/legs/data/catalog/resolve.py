"""What a name or a path stands for: a reader, and the files it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from legs.data.catalog import fetch, specs
from legs.data.catalog.specs import NAMED, Spec
from legs.data.errors import DataError
from legs.data.readers.base import Reader
from legs.data.readers.table_files import SUFFIXES as TABLES
from legs.data.readers.table_files import require_pandas
from legs.io import expand_user


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

    Names of :data:`legs.data.catalog.specs.NAMED` come first, then files, then other names of the
    TUDataset collection; ``./MUTAG`` is always a path.

    Raises:
        DataError: neither a name nor a path.
    """
    name = str(name_or_path)
    is_name = isinstance(name_or_path, str) and not any(c in name for c in "/\\")
    spec = specs.lookup(name) if is_name else None
    if spec is not None:
        return _named(spec)
    path = expand_user(name_or_path)
    if path.exists():
        return Source(path.stem, _reader_of(path), lambda: (path,), lambda: [path])
    if not is_name or path.name.lower().endswith((*TABLES, ".zip", ".gz")):
        raise DataError(f"{path}: no such file or folder")
    return _named(specs.lookup_tu(name))


def _named(spec: Spec) -> Source:
    def files() -> list[Path] | None:
        place = specs.locate(spec)
        return None if place is None else place[1]

    def arguments() -> tuple[Any, ...]:
        if spec.reader != "tu":
            return () if spec.argument is None else (spec.argument,)
        try:
            return (fetch.require(spec.places[0][0], url=spec.url, sha256=spec.sha256),)
        except DataError as error:
            if spec.name in NAMED:
                raise
            hint = specs.suggestion(spec.name)
            raise DataError(f"there is no data set {spec.name!r} here.{hint} ({error})") from error

    info = {"named": True, "licence": spec.licence} | ({"note": spec.note} if spec.note else {})
    return Source(spec.name, _named_reader(spec.reader), arguments, files, info)


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
