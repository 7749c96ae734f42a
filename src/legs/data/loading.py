"""Loads a data set by its name or from files, prepared once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from legs.data.catalog import cache as store
from legs.data.catalog import fetch
from legs.data.catalog.specs import Source, resolve
from legs.data.dataset import GraphDataset, Task
from legs.data.errors import BadRows, DataError, OnError, write_bad_rows
from legs.data.readers.targets import find_column
from legs.io import check_outputs, printable

if TYPE_CHECKING:
    from legs.data.features.molecule_features import Descriptors, Fingerprint


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
    descriptors: Descriptors | None = None,
    fingerprint: Fingerprint | None = None,
    **options: Any,
) -> GraphDataset:
    """Loads a data set.

    Args:
        name_or_path: a name (see :func:`legs.data.available`; any name of the TUDataset collection
            works), or a path: a CSV, TSV, Excel or Parquet table with SMILES, an SDF or .smi
            file, a folder or zip in TUDataset's layout, a folder of GraphML, GML, JSON or
            edge-list files with a table of labels, a folder of PDB or mmCIF files.
        features: blocks of node features, ``"structure+labels"`` or a list; default: what suits
            the source, for graphs the structure and all labels and attributes of nodes. See
            :func:`legs.data.features.blocks.assemble`; ``info["unused"]`` lists what is not used.
        target: the target or targets to keep; for a user's files, columns of the table.
        task: ``"classification"``, ``"regression"`` or ``"multilabel"`` (columns of 0 and 1, of
            which values may be missing); default: detected, one of the first two.
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
        descriptors: ``"rdkit"`` for RDKit's descriptors of molecules as graph-level features
            (default ``None``); see
            :func:`legs.data.features.molecule_features.molecule_features`.
        fingerprint: ``"morgan"`` or ``"morgan-count"``, likewise (default ``None``).
        options: further options of the reader, such as ``hydrogens=True`` or ``keep_salts=True``
            (see :func:`legs.data.readers.tables.read_table`) for molecules, ``k=10`` neighbours for
            structures.

    Raises:
        DataError: not found, or broken; says where, and what to do.

    >>> load("./molecules.csv")
    Traceback (most recent call last):
    ...
    legs.data.errors.DataError: molecules.csv: no such file or folder
    """
    options |= {"target": target, "task": task, "table": table, "directed": directed}
    options |= {"smiles_column": smiles_column, "id_column": id_column}
    if bad_file is not None:
        check_outputs([bad_file], [name_or_path])
    source = resolve(name_or_path)
    chosen = source.take({name: value for name, value in options.items() if value is not None})
    if limit is not None and limit < 1:
        raise DataError(f"limit is at least 1, not {limit}")
    molecules = (descriptors, fingerprint)
    dataset = _prepared(source, features, chosen, BadRows(on_error), limit, cache, molecules)
    if target is not None and "target" not in chosen:
        names = [target] if isinstance(target, str) else list(target)
        dataset = _select(dataset, names, BadRows(on_error))
    if task is not None and dataset.task != task:
        raise DataError(f"{dataset.name} is a {dataset.task or 'set without targets'}, not {task}")
    if bad_file is not None:
        write_bad_rows(Path(bad_file), dataset.info.get("bad", ()))
    return dataset if limit is None or limit >= len(dataset) else dataset[:limit]


def load_training(name_or_path: str | Path, **options: Any) -> GraphDataset:
    """:func:`load` for training: needs targets, and keeps the reader's options for new files."""
    data = load(name_or_path, **options)
    if data.y is None:
        raise DataError(f"{data.name} has no targets to train on; name a column (target=)")
    # Other options concern this file alone, or are in the data set.
    own = {"features", "target", "task", "table", "on_error", "bad_file", "limit", "cache"}
    own |= {"split_column"}
    reading = {k: v for k, v in options.items() if k not in own and v is not None}
    return replace(data, info={**data.info, "reading": reading})


def reading_options(data: GraphDataset) -> dict[str, Any]:
    """How a data set was read, as JSON values: what a model needs to read new files."""
    columns = (
        *("hydrogens", "bond_weights", "keep_salts", "smiles_column", "id_column"),
        *("descriptors", "fingerprint"),
    )
    noted = {name: data.info[name] for name in columns if data.info.get(name) is not None}
    noted |= {**data.info.get("reading", {}), "targets": list(data.target_names)}
    if data.graph_feature_names:
        noted["graph_feature_names"] = list(data.graph_feature_names)
    return noted


def _prepared(
    source: Source,
    features: str | Sequence[str] | None,
    chosen: dict[str, Any],
    bad: BadRows,
    limit: int | None,
    use_cache: bool,
    molecules: tuple[Descriptors | None, Fingerprint | None],
) -> GraphDataset:
    """The whole set, or where the reader can stop early, at least ``limit`` graphs of it."""
    from legs.data.features.blocks import assemble
    from legs.data.features.molecule_features import feature_names, with_molecule_features

    blocks = features.replace(" ", "").split("+") if isinstance(features, str) else features
    options = dict(chosen)
    if "bad" in source.reader.options:
        options["bad"] = bad
    versions: dict[str, str] = {}
    for package in ("rdkit", "biotite"):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    choices: dict[str, Any] = {
        "features": None if blocks is None else list(blocks),
        "options": {**chosen, "on_error": bad.on_error if "bad" in options else ""},
        "versions": versions,
    }
    if any(molecules):
        feature_names(*molecules)  # reports wrong options before anything is read
        choices["molecules"] = molecules
    place = _place(source, choices, chosen) if use_cache else None
    least = limit if "limit" in source.reader.options else None
    prepared = None if place is None else store.find(place)
    # A set may by default be part of its source, and the limit beyond that part.
    if prepared is not None and len(prepared) >= (least or 0):
        return prepared
    if least is not None:
        options["limit"] = least
    raw = source.reader.read(*source.arguments(), **options)
    info: dict[str, Any] = {**source.info, **raw.info}
    if len(bad) or "bad_rows" not in info:
        info |= {"bad_rows": len(bad), "bad": list(bad)}
    dataset = assemble(replace(raw, name=raw.name or source.name, info=info), blocks)
    dataset = with_molecule_features(dataset, *molecules)
    # As the cache gives it back: the first load must not differ from the second.
    dataset = replace(dataset, info=store.plain(dataset.info))
    if use_cache and least is None:
        try:
            # Before a download there was no place.
            if (place := place or _place(source, choices, chosen)) is not None:
                store.evict(store.save_dataset(place, dataset))
        except (OSError, DataError) as error:  # a full disk costs time, not the result
            message = printable(f"{dataset.name} was not kept in the cache: {error}")
            warnings.warn(message, stacklevel=3)
    return dataset


def _place(source: Source, choices: dict[str, Any], options: dict[str, Any]) -> Path | None:
    """The folder of the cache for a prepared set; ``None`` while its files are not there."""
    files = [Path(options["folder"])] if "folder" in options else source.files()
    if files is None:
        return None
    tables = [Path(options["table"])] if "table" in options else []
    digests = [store.digest(path) for path in (*files, *tables) if path.exists()]
    return fetch.cache_dir() / "prepared" / store.entry(source.name, digests, choices)


def _select(dataset: GraphDataset, names: list[str], bad: BadRows) -> GraphDataset:
    """Some of the targets of a set that offers several, and the graphs that have any of them."""
    if dataset.y is None or dataset.task != "regression" or not dataset.target_names:
        raise DataError(f"{dataset.name} has no targets to choose from")
    offered = dataset.target_names
    y = dataset.y[:, [offered.index(find_column(offered, name, "target")) for name in names]]
    has_value = ~y.isnan().all(1)
    for i in (~has_value).nonzero().flatten().tolist():
        graph = dataset.ids[i] if dataset.ids else i
        bad.add(f"{dataset.name} graph {graph}", f"no value of {', '.join(names)}")
    dataset = replace(dataset, y=y, target_names=tuple(names))
    if not len(bad):
        return dataset
    if not has_value.any():
        raise DataError(f"no graph of {dataset.name} has a value of {', '.join(names)}")
    rows = [*dataset.info.get("bad", ()), *bad]
    info = {**dataset.info, "bad": rows, "bad_rows": len(rows)}
    return replace(dataset.subset(has_value.nonzero().flatten()), info=info)
