"""What a name or a path stands for: a reader, and the files it reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from legs.data import registry, sources
from legs.data.catalogue import NAMED, Known
from legs.data.errors import DataError
from legs.data.raw import RawGraphs

TABLES = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".sdf", ".sd", ".smi", ".smiles", ".txt")
STRUCTURES = (".pdb", ".ent", ".cif", ".mmcif")


@dataclass(frozen=True)
class Source:
    """Where a set is read from, and how."""

    name: str
    reader: Callable[..., RawGraphs]
    arguments: Callable[[], tuple[Any, ...]]  # for the reader; may download
    files: Callable[[], list[Path] | None]  # those it reads, or None where they are not there yet
    packages: tuple[str, ...] = ()  # that the result depends on
    default_features: str | None = None  # where it is known beforehand
    info: dict[str, Any] = field(default_factory=dict)

    def accepts(self, option: str) -> bool:
        """Whether the reader has a parameter of that name."""
        return option in inspect.signature(self.reader).parameters

    def take(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options for the reader; those that nobody heeds are an error."""
        for name in options:
            if not self.accepts(name) and name not in ("target", "task"):
                raise DataError(f"the option {name} does not apply to {self.name}")
        return {name: value for name, value in options.items() if self.accepts(name)}


def resolve(name_or_path: str | Path) -> Source:
    """Finds out what a name or path stands for; reads nothing yet.

    Names of :data:`legs.data.catalogue.NAMED` come first, then files, then other names of the
    TUDataset collection; ``./MUTAG`` is always a path.

    Raises:
        DataError: neither a name nor a path.
    """
    name = str(name_or_path)
    is_name = isinstance(name_or_path, str) and not any(c in name for c in "/\\")
    known = registry.lookup(name) if is_name else None
    if known is not None:
        return _named(known)
    path = Path(name_or_path).expanduser()
    if path.exists():
        return _own(path)
    if not is_name or path.name.lower().endswith((*TABLES, ".zip", ".gz")):
        raise DataError(f"{path}: no such file or folder")
    return _named(registry.lookup_tu(name))


def _named(known: Known) -> Source:
    module, function = known.reader.split(".")
    packages = {"molecules": ("rdkit",), "structures": ("biotite",), "graphs": ()}[known.kind]

    def files() -> list[Path] | None:
        place = registry.locate(known)
        return None if place is None else place[1]

    def arguments() -> tuple[Any, ...]:
        if known.kind != "graphs":
            return () if known.argument is None else (known.argument,)
        return tuple(files() or [_fetch(known)])

    return Source(
        known.name,
        getattr(import_module(f"legs.data.{module}"), function),
        arguments,
        files,
        packages,
        "structure" if known.kind == "graphs" else None,
        {"licence": known.licence} | ({"note": known.note} if known.note else {}),
    )


def _fetch(known: Known) -> Path:
    try:
        return sources.require(known.places[0][0], url=known.url)
    except DataError as error:
        if known.name in NAMED:
            raise
        meant = registry.suggestion(known.name)
        raise DataError(f"there is no data set {known.name!r} here.{meant} ({error})") from error


def _own(path: Path) -> Source:
    from legs.data.tu_files import is_tu

    lower = path.name.lower()
    if (path / "tensors.safetensors").is_file():
        raise DataError(f"{path} is a prepared data set: legs.data.load_dataset reads it")
    if lower.endswith(".zip") or (path.is_dir() and is_tu(path)):
        module, function = "tu", "read_tu"
    elif path.is_dir() and any(p.name.lower().endswith(STRUCTURES) for p in path.iterdir()):
        module, function = "structures", "read_folder"
    elif path.is_dir():
        module, function = "graph_files", "read_folder"
    elif lower.removesuffix(".gz").endswith(TABLES):
        module, function = "tables", "read_table"
    else:
        raise DataError(
            f"{path}: cannot tell what this is; a file is one of .zip, {', '.join(TABLES)}, "
            "graphs and structures come in folders"
        )
    reader = getattr(import_module(f"legs.data.{module}"), function)
    packages = () if module == "tu" else ("rdkit", "biotite")
    default = "structure" if module == "tu" else None
    return Source(path.stem, reader, lambda: (path,), lambda: [path], packages, default)
