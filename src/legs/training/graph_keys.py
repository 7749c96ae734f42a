"""Short keys of graphs, by which a model recognises those it was trained on."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from legs.data.dataset import GraphDataset

LENGTH = 8  # bytes of a key: among millions of graphs, no two agree by chance


def graph_keys(data: GraphDataset) -> npt.NDArray[np.uint64]:
    """One key per graph: of its canonical SMILES, or of its nodes and edges in their order."""
    molecules = bool(data.smiles) and all(data.smiles) and find_spec("rdkit") is not None
    texts = _molecules(data.smiles) if molecules else _contents(data)
    digests = b"".join(hashlib.sha256(text).digest()[:LENGTH] for text in texts)
    return np.frombuffer(digests, dtype="<u8")


def encode_keys(keys: npt.NDArray[np.uint64]) -> str:
    """Distinct keys as text, for a JSON file.

    >>> decode_keys(encode_keys(np.array([7, 3, 7], dtype="<u8")))
    array([3, 7], dtype=uint64)
    """
    return base64.b64encode(np.unique(keys).astype("<u8").tobytes()).decode()


def decode_keys(text: str) -> npt.NDArray[np.uint64]:
    """Back from :func:`encode_keys`."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8")


def _molecules(smiles: tuple[str, ...]) -> Iterator[bytes]:
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        for text in smiles:
            mol = Chem.MolFromSmiles(text)
            canonical = text if mol is None else Chem.MolToSmiles(mol)
            yield canonical.encode("utf-8", "surrogateescape")


def _contents(data: GraphDataset) -> Iterator[bytes]:
    # Rounded: another way to compute the same features must not make another graph.
    x = (data.x.round(decimals=4) + 0.0).numpy()
    ptr, rowptr, col = (t.numpy() for t in (data.ptr, data.rowptr, data.col))
    for start, end in pairwise(ptr.tolist()):
        edges = slice(rowptr[start], rowptr[end])
        parts = [x[start:end], rowptr[start : end + 1] - rowptr[start], col[edges] - start]
        if data.edge_weight is not None:
            parts.append(data.edge_weight[edges].numpy())
        yield b"".join(part.tobytes() for part in parts)
