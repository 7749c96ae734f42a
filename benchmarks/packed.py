"""Data sets for machines without RDKit or the raw files: one compressed file per data set.

A packed set holds the same numbers to the last bit, and is checked for it: results do not depend on
where the data came from. It is looked for as ``packed/NAME.npz`` in ``LEGS_DATA`` or the cache.
``python -m benchmarks.packed FOLDER`` packs those of the regression studies into ``FOLDER/packed``,
or those of the studies named after it; ``LEGS_DATA=FOLDER legs reproduce qm9`` finds them there.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from legs.data import load
from legs.data.catalog import fetch
from legs.data.dataset import GraphDataset, offsets
from legs.data.errors import DataError
from legs.data.splits import scaffold_split
from legs.data.validate import check_dataset
from legs.io import parse_json, read_arrays, write_atomically
from legs.training.fit import fingerprint

FOLDER = "packed"
# In ``info`` of a packed set: for each seed of a split by scaffold, the part of every molecule.
SCAFFOLDS = "scaffold_parts"
_WORDS = ("feature_names", "class_names", "target_names", "groups")


def find_set(name: str, features: str) -> GraphDataset:
    """A data set by name: packed where such a file lies in the data folder, else as it is loaded.

    Args:
        name: of the set.
        features: blocks of node features.
    """
    path = fetch.find(f"{FOLDER}/{name}.npz")
    if path is None:
        return load(name, features=features)
    data = unpack(path)
    if data.info["features"] != features.split("+"):
        there = "+".join(data.info["features"])
        raise DataError(f"{path} has the node features {there}, not {features}")
    return data


def pack(data: GraphDataset, path: str | Path, scaffold_seeds: Sequence[int] = ()) -> Path:
    """Writes graphs, features, targets and groups; ids and SMILES stay behind.

    Args:
        data: with targets, without edge weights.
        path: of the file, ending in ``.npz``.
        scaffold_seeds: of splits by scaffold that go with it, for a place without RDKit.
    """
    if data.edge_weight is not None or data.y is None:
        raise DataError(f"{data.name}: only sets with targets and without edge weights are packed")
    graph = torch.repeat_interleave(torch.arange(len(data)), data.sizes)
    row = torch.repeat_interleave(torch.arange(data.num_nodes), data.rowptr.diff())
    parts = {}
    for seed in scaffold_seeds:
        parts[str(seed)] = np.empty(len(data), dtype=np.int8)
        for number, part in enumerate(scaffold_split(data.smiles, seed=seed)):
            parts[str(seed)][part] = number
    metadata = {
        "task": data.task,
        "name": data.name,
        **{name: list(getattr(data, name)) for name in _WORDS},
        "features": list(data.info.get("features", ())),
        "fingerprint": fingerprint(data),
        "seeds": list(parts),
    }
    arrays: dict[str, Any] = {
        "known": np.frombuffer(json.dumps(metadata).encode(), dtype=np.uint8),
        "sizes": data.sizes.int().numpy(),
        "degree": data.rowptr.diff().int().numpy(),
        # Small numbers compress well.
        "local": (data.col.long() - data.ptr[graph[row]]).int().numpy(),
        "y": data.y.numpy(),
        "scaffolds": np.stack(list(parts.values())) if parts else np.zeros((0, 0), dtype=np.int8),
    }
    arrays |= {f"x{k}": _narrow(column) for k, column in enumerate(data.x.unbind(1))}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, file.getvalue())
    return path


def unpack(path: str | Path) -> GraphDataset:
    """Reads what :func:`pack` wrote, and checks that it is what was packed."""
    try:
        arrays = read_arrays(path)
        metadata = parse_json(bytes(arrays["known"]))
        ptr, rowptr = (offsets(torch.from_numpy(arrays[k]).long()) for k in ("sizes", "degree"))
        start = torch.repeat_interleave(ptr[:-1], ptr.diff())
        col = torch.from_numpy(arrays["local"]).long()
        col += torch.repeat_interleave(start, rowptr.diff())
        count = sum(name.startswith("x") for name in arrays)
        columns = [arrays[f"x{k}"].astype(np.float32) for k in range(count)]
        words: dict[str, Any] = {name: tuple(metadata[name]) for name in _WORDS}
        info = {
            "features": metadata["features"],
            SCAFFOLDS: dict(zip(metadata["seeds"], arrays["scaffolds"].tolist(), strict=True)),
        }
        data = GraphDataset(
            torch.from_numpy(np.stack(columns, axis=1)),
            ptr,
            rowptr,
            col.int(),
            y=torch.from_numpy(arrays["y"]),
            task=metadata["task"],
            name=metadata["name"],
            info=info,
            **words,
        )
        expected = metadata["fingerprint"]
        check_dataset(data)
    # Arrays of any shape and kind may be there, and every step fails in its own way.
    except Exception as error:
        raise DataError(f"{path} is not a packed data set, or a damaged one: {error}") from error
    if fingerprint(data) != expected:
        raise DataError(f"{path} is damaged: it does not hold the numbers that were packed")
    return data


def _narrow(column: Tensor) -> npt.NDArray[Any]:
    """As small numbers, where they are small whole numbers; else as they are."""
    small = column.to(torch.int8)
    return (small if torch.equal(small.to(column.dtype), column) else column).numpy()


def main(folder: str, *studies: str) -> None:
    """Packs the data sets of the regression studies, or of others."""
    from reproduction.plan import Request, cells_of, experiment

    for study in studies or ("qm9", "zinc", "affinity", "structures"):
        spec = experiment(study)
        features = {cell.data: cell.features for cell in cells_of(spec, Request(Path(folder)))}
        for name in features.keys() - spec.get("optional", ()):
            # Seeds of the scaffold splits: those of --seed 0, 1 and 2.
            seeds = range(12) if study == "affinity" else ()
            data = load(name, features=features[name])
            path = pack(data, Path(folder) / FOLDER / f"{name}.npz", seeds)
            print(f"{path}: {len(data):,} graphs, {path.stat().st_size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
