"""A data set as one compressed file, to take to another machine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from legs.data.dataset import GraphDataset


def pack(data: GraphDataset, path: str | Path) -> None:
    """Writes graphs, features and targets (no ids, no SMILES)."""
    graph = torch.repeat_interleave(torch.arange(len(data)), data.sizes)
    row = torch.repeat_interleave(torch.arange(data.num_nodes), data.rowptr.diff())
    local = data.col.long() - data.ptr[graph[row]]  # small numbers compress well
    known = {
        "task": data.task,
        "name": data.name,
        "feature_names": data.feature_names,
        "class_names": data.class_names,
        "target_names": data.target_names,
    }
    assert data.edge_weight is None and data.y is not None
    np.savez_compressed(
        path,
        known=np.frombuffer(json.dumps(known).encode(), dtype=np.uint8),
        x=data.x.T.contiguous().numpy(),
        sizes=data.sizes.int().numpy(),
        degree=data.rowptr.diff().short().numpy(),
        local=local.short().numpy(),
        y=data.y.numpy(),
    )


def unpack(path: str | Path) -> GraphDataset:
    """Reads what :func:`pack` wrote."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name].copy()) for name in file.files}
    known = json.loads(bytes(arrays["known"].numpy()).decode())
    ptr = torch.nn.functional.pad(arrays["sizes"].long().cumsum(0), (1, 0))
    rowptr = torch.nn.functional.pad(arrays["degree"].long().cumsum(0), (1, 0))
    start = torch.repeat_interleave(ptr[:-1], arrays["sizes"].long())
    col = arrays["local"].long() + torch.repeat_interleave(start, arrays["degree"].long())
    names = {k: tuple(v) for k, v in known.items() if k.endswith("_names")}
    return GraphDataset(
        arrays["x"].T.contiguous(),
        ptr,
        rowptr,
        col.int(),
        y=arrays["y"],
        task=known["task"],
        name=known["name"],
        **names,
    )
