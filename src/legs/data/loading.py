"""A data set by its name or from a user's own files, prepared once."""

from __future__ import annotations

import csv
import io
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from legs.data import cache as store
from legs.data import sources
from legs.data.dataset import GraphDataset, Task
from legs.data.errors import BadRows, DataError, OnError
from legs.data.origins import Source, resolve
from legs.data.raw import RawGraphs
from legs.files import write_atomically


def load(
    name_or_path: str | Path,
    *,
    features: str | Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    task: Task | None = None,
    smiles_column: str | None = None,
    id_column: str | None = None,
    table: str | Path | None = None,
    directed: Literal["error", "symmetrize"] | None = None,
    on_error: OnError = "raise",
    bad_file: str | Path | None = None,
    limit: int | None = None,
    cache: bool = True,
    **options: Any,
) -> GraphDataset:
    """Loads a data set.

    Args:
        name_or_path: a name (see :func:`legs.data.available`; any name of the TUDataset collection
            works), or a path: a CSV, TSV or Parquet table with SMILES, an SDF or .smi file, a
            folder or zip in TUDataset's layout, a folder of GraphML, GML, JSON or edge-list files
            with a table of labels, a folder of PDB or mmCIF files.
        features: blocks of node features, ``"structure+labels"`` or a list; default: what suits
            the source (``"structure"`` for graphs). See :func:`legs.data.features.assemble`.
        target: the target or targets to keep; for a user's files, columns of the table.
        task: ``"classification"`` or ``"regression"``; default: detected.
        smiles_column: of a table (default: found).
        id_column: of a table (default: found).
        table: of labels, for folders of graph files (default: found in the folder).
        directed: ``"symmetrize"`` takes directed edges as undirected ones; by default they are an
            error.
        on_error: ``"raise"`` (default) stops at the first bad row or file; ``"skip"`` drops such
            rows and counts them in ``info["bad_rows"]``.
        bad_file: a CSV file to write the dropped rows to: where, reason.
        limit: only the first graphs (default: all).
        cache: keep the prepared set in the cache, and take it from there (default).
        options: further options of the reader, such as ``hydrogens=True`` for molecules, ``k=10``
            neighbours for structures, ``folder=`` for CASP12.

    Raises:
        DataError: not found, or broken; says where, and what to do.

    >>> load("./molecules.csv")
    Traceback (most recent call last):
    ...
    legs.data.errors.DataError: molecules.csv: no such file or folder
    """
    options |= {
        "target": target,
        "task": task,
        "smiles_column": smiles_column,
        "id_column": id_column,
        "table": table,
        "directed": directed,
    }
    source = resolve(name_or_path)
    given = source.take({name: value for name, value in options.items() if value is not None})
    if limit is not None and limit < 1:
        raise DataError(f"limit is at least 1, not {limit}")
    dataset = _prepared(source, features, given, BadRows(on_error), limit, cache)
    if target is not None and "target" not in given:
        dataset = _select(dataset, [target] if isinstance(target, str) else list(target))
    if task is not None and dataset.task != task:
        raise DataError(f"{dataset.name} is a {dataset.task or 'set without targets'}, not {task}")
    if bad_file is not None:
        _write_bad(Path(bad_file), dataset)
    return dataset if limit is None or limit >= len(dataset) else dataset[:limit]


def _prepared(
    source: Source,
    features: str | Sequence[str] | None,
    given: dict[str, Any],
    bad: BadRows,
    limit: int | None,
    use_cache: bool,
) -> GraphDataset:
    """The whole set, or where the reader can do with less, at least ``limit`` graphs of it."""
    chosen = features if features is not None else source.default_features
    blocks = chosen.replace(" ", "").split("+") if isinstance(chosen, str) else chosen
    extra = dict(given)
    if source.accepts("bad"):
        extra["bad"] = bad
    choices = {
        "features": None if blocks is None else list(blocks),
        "options": {**given, "on_error": bad.on_error if "bad" in extra else ""},
        "versions": {package: _version(package) for package in source.packages},
    }
    place = _place(source, choices, given) if use_cache else None
    partial = limit is not None and source.accepts("limit")
    kept = None if place is None else _kept(place)
    # A set may by default be part of its source, and the limit beyond that part.
    if kept is not None and not (partial and limit is not None and len(kept) < limit):
        return kept
    if partial:
        extra["limit"] = limit
    dataset = _assembled(source.reader(*source.arguments(), **extra), source, blocks, bad)
    if use_cache and not partial:
        # Where the files came by download, there was no place before.
        _keep(dataset, place or _place(source, choices, given))
    return dataset


def _place(source: Source, choices: dict[str, Any], given: dict[str, Any]) -> Path | None:
    """The folder of the cache for a prepared set; ``None`` while its files are not there."""
    files = [Path(given["folder"])] if "folder" in given else source.files()
    if files is None:
        return None
    tables = [Path(given["table"])] if "table" in given else []
    digests = [store.digest(path) for path in (*files, *tables) if path.exists()]
    return sources.cache_dir() / "prepared" / store.entry(source.name, digests, choices)


def _kept(place: Path) -> GraphDataset | None:
    """A prepared set from the cache; a damaged one is dropped, to be made anew."""
    if not place.exists():
        return None
    try:
        return store.load_dataset(place)
    except DataError:
        shutil.rmtree(place, ignore_errors=True)
        return None


def _keep(dataset: GraphDataset, place: Path | None) -> None:
    try:
        if place is not None:
            store.drop_outdated(store.save_dataset(place, dataset))
    except (OSError, DataError) as error:  # a full disk costs time, not the result
        warnings.warn(f"{dataset.name} was not kept in the cache: {error}", stacklevel=4)


def _assembled(
    raw: RawGraphs, source: Source, features: Sequence[str] | None, bad: BadRows
) -> GraphDataset:
    from legs.data.features import assemble

    info: dict[str, Any] = {**source.info, **raw.info}
    if len(bad) or "bad_rows" not in info:
        info |= {"bad_rows": len(bad), "bad": list(bad)}
    dataset = assemble(replace(raw, name=raw.name or source.name, info=info), features)
    # As the cache gives it back: the first load must not differ from the second.
    return replace(dataset, info=store.plain(dataset.info))


def _select(dataset: GraphDataset, names: list[str]) -> GraphDataset:
    """Some of the targets of a set that offers several."""
    if dataset.y is None or dataset.task != "regression" or not dataset.target_names:
        raise DataError(f"{dataset.name} has no targets to choose from")
    for name in names:
        if name not in dataset.target_names:
            offered = ", ".join(dataset.target_names)
            raise DataError(f"{dataset.name} has no target {name!r}; there are {offered}")
    columns = [dataset.target_names.index(name) for name in names]
    return replace(dataset, y=dataset.y[:, columns], target_names=tuple(names))


def _write_bad(path: Path, dataset: GraphDataset) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["where", "reason"])
    writer.writerows(dataset.info.get("bad", ()))
    write_atomically(path, text.getvalue().encode("utf-8", "surrogateescape"))


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
