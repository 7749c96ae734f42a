"""Sets of predicted structures: RNA-Puzzles, synthetic protein decoys, CASP12."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from legs.data.catalog import fetch
from legs.data.catalog.specs import NAMED
from legs.data.errors import STRICT, BadRows, DataError
from legs.data.readers.base import RawGraphs, Reader
from legs.data.readers.structures import (
    NEIGHBOURS,
    need_biotite,
    read_structure,
    score,
    structure_graphs,
)
from legs.data.readers.table_files import read_parquet, reading_errors
from legs.data.readers.targets import encode_targets, parse_number
from legs.data.validate import Array
from legs.io import read_arrays


def read_rna_puzzles(*, k: int = NEIGHBOURS) -> RawGraphs:
    """1,192 blind predictions of 23 RNA structures, as graphs of C4′ atoms; regresses GDT_TS."""
    info = {"source": "RNA-Puzzles standardized submissions"}
    return _read("rna-puzzles", "n", "target", "model", info, k=k, name="rna-puzzles")


def read_protein_decoys(*, k: int = NEIGHBOURS) -> RawGraphs:
    """4,008 **synthetic** decoys of 12 real proteins, bent at random; regresses GDT_TS."""
    info, name = {"synthetic": True, "source": "made for this project"}, "protein-decoys-synthetic"
    return _read("protein-decoys", "n_res", "protein", "k", info, k=k, name=name)


def _read(
    data_set: str, size: str, group: str, member: str, info: dict[str, Any], **fields: Any
) -> RawGraphs:
    """Models, grouped by what they model: columns of a table, beside an array of their sizes."""
    table, arrays = NAMED[data_set].places[0]
    frame = read_parquet(fetch.require(table), [group, member, "gdt_ts"])
    sizes, coords = _coordinates(fetch.require(arrays), size)
    if len(frame) != len(sizes):
        raise DataError(
            f"{table} has {len(frame)} rows, {arrays} {len(sizes)} structures: not of one version"
        )
    groups, members = tuple(frame[group].astype(str)), frame[member].astype(str)
    # Decoys are numbered within their protein, models have names of their own.
    numbered = members.duplicated().any()
    return structure_graphs(
        np.split(coords, np.cumsum(sizes)[:-1]),
        encode_targets(frame, ["gdt_ts"], "regression"),
        ids=tuple(f"{g}-{m}" if numbered else m for g, m in zip(groups, members, strict=True)),
        info={**info, "groups": groups},
        **fields,
    )


def _coordinates(path: Path, size: str) -> tuple[Array, Array]:
    """Number of residues of each structure, and all coordinates in Å."""
    with reading_errors(f"{path} cannot be read", path):
        arrays = read_arrays(path)
        sizes = arrays[size].astype(np.int64).reshape(-1)
        coords = arrays["xyz_cA"].astype(np.float64) / 100
    if sizes.min(initial=1) < 1 or coords.shape != (sizes.sum(), 3):
        raise DataError(f"{path}: {coords.shape} coordinates for {sizes.sum()} residues")
    return sizes, coords


HELP = (
    "CASP12 cannot be redistributed. Download them from the prediction centre, "
    "https://predictioncenter.org/download_area/CASP12/: predictions/T0860.tar.gz and so on, and "
    "targets/ (native structures) or the result tables (text files with the columns Model and "
    "GDT_TS). Unpack them into one folder: T0860/T0860TS001_1, …, T0860.txt or T0860.pdb, and the "
    "same for every target. Give that folder, or put it where LEGS_DATA points, as "
    "structures/casp12. Stand-ins that need no download from there: rna-puzzles (real blind "
    "predictions of RNA) and protein-decoys (synthetic)"
)
_TARGET = r"[A-Z]\d{4}(?:s\d+)?"
_UNIT = re.compile(rf"({_TARGET})(-D\d+)?", re.ASCII)
_MODEL = re.compile(rf"(?:{_TARGET}TS\w+|[\w.+-]+_TS\d+)(?:-D\d+)?(?:\.pdb)?", re.ASCII)
_MOST_BYTES = 64 * 2**20


def read_casp12(
    folder: str | Path | None = None, *, k: int = NEIGHBOURS, bad: BadRows = STRICT
) -> RawGraphs:
    """Reads a folder of CASP models; regresses GDT_TS.

    ``folder`` holds a directory for every target (``T0860``, or ``T0860-D1`` for models trimmed to
    a domain) with its model files (``T0860TS001_1``, with or without ``.pdb``), anywhere below it.
    The score of a model comes from a result table (``T0860.txt``, ``T0860-D1.txt``), or is
    computed where there is only the native structure (``T0860.pdb``); tables count first. A table
    or native structure of the target's only domain serves for the whole target.
    """
    top = fetch.find("structures/casp12") if folder is None else Path(folder)
    if top is None or not top.is_dir():
        raise DataError(f"CASP12 was not found{f' in {folder}' if folder else ''}. {HELP}")
    need_biotite()
    files = sorted(path for path in top.rglob("*") if path.is_file())
    tables, natives = (
        {p.stem: p for p in files if p.suffix == suffix and _UNIT.fullmatch(p.stem)}
        for suffix in (".txt", ".pdb")
    )
    models = [p for p in files if _UNIT.fullmatch(p.parent.name) and _MODEL.fullmatch(p.name)]
    if not models:
        raise DataError(f"no model of a CASP target was found below {top}. {HELP}")
    rows: list[tuple[str, str, Array, float, bool]] = []
    for unit, paths in groupby(models, lambda path: path.parent.name):
        rows += _read_unit(unit, paths, _file_for(unit, tables), _file_for(unit, natives), bad)
    if not rows:
        raise DataError(f"no model below {top} has coordinates and a GDT_TS. {HELP}")
    groups, ids, coords, scores, computed = zip(*rows, strict=True)
    return structure_graphs(
        coords,
        encode_targets({"gdt_ts": np.array(scores)}, ["gdt_ts"], "regression"),
        k=k,
        name="casp12",
        ids=ids,
        info={
            "source": str(top),
            "groups": groups,
            "computed": sum(computed),
            "licence": "not to be redistributed",
        },
    )


def read_scores(path: Path) -> dict[str, float]:
    """GDT_TS of each model, without the suffix of a domain, from a table in columns of text."""
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"{path.name} is larger than {_MOST_BYTES >> 20} MiB")
    header: list[str] = []
    scores: dict[str, float] = {}
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
        cells = line.split()
        if "Model" in cells and "GDT_TS" in cells:
            header = cells
        elif header and len(cells) > 1:
            # Some tables number their rows without a name for that column.
            cells = cells[1:] if len(cells) == len(header) + 1 else cells
            if len(cells) != len(header):
                raise DataError(
                    f"{path.name}, line {number}: {len(cells)} columns, {len(header)} in the header"
                )
            row = dict(zip(header, cells, strict=True))
            with suppress(ValueError):  # "-" or "N/A": not scored
                scores[_bare(row["Model"])] = parse_number(row["GDT_TS"])
    if not header:
        raise DataError(f"{path.name}: no header line with the columns Model and GDT_TS")
    return {name: value for name, value in scores.items() if np.isfinite(value)}


def _file_for(unit: str, files: Mapping[str, Path]) -> Path | None:
    if unit in files or "-" in unit:
        return files.get(unit)
    domains = [name for name in files if name.startswith(f"{unit}-D")]
    return files[domains[0]] if len(domains) == 1 else None


def _read_unit(
    unit: str, models: Iterable[Path], table: Path | None, native: Path | None, bad: BadRows
) -> Iterator[tuple[str, str, Array, float, bool]]:
    """Target, name, coordinates and score of models, and whether it was computed.

    ``unit`` is a target (T0860) or a domain of one (T0860-D1).
    """
    if table is None and native is None:
        bad.add(unit, "neither a result table nor a native structure; see `read_casp12`")
        return
    scores = {} if table is None else read_scores(table)
    try:
        truth = None if native is None else read_structure(native)
    except DataError as error:
        raise DataError(f"{native}: {error}") from error
    target = unit.partition("-")[0]
    for path in models:
        name = path.name.removesuffix(".pdb")
        value = scores.get(_bare(name))
        computed = value is None
        try:
            structure = read_structure(path)
            if value is None and truth is not None:
                value = score(structure, truth)
            if value is None:
                raise DataError(f"no GDT_TS in {table.name if table else 'any table'}")
        except DataError as error:
            bad.add(f"{unit}/{path.name}", str(error))
            continue
        label = name if name.startswith(target) else f"{unit}/{name}"
        yield target, label, structure.coords, value, computed


def _bare(name: str) -> str:
    """A model's name without the suffix of a domain."""
    return re.sub(r"-D\d+$", "", name)


_reader = partial(Reader, packages=("biotite",))
READERS: dict[str, Reader] = {
    "casp12": _reader(read_casp12, frozenset({"folder", "k", "bad"})),
    "rna-puzzles": _reader(read_rna_puzzles, frozenset({"k"})),
    "protein-decoys": _reader(read_protein_decoys, frozenset({"k"})),
}
