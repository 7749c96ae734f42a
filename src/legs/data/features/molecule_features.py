"""Features of whole molecules: RDKit's descriptors and Morgan fingerprints.

Kept free of PyTorch, so that worker processes start quickly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from legs.data.errors import DataError
from legs.data.features.atom_table import LARGEST_FOR_IPC, require_rdkit

if TYPE_CHECKING:
    from legs.data.dataset import GraphDataset

Descriptors = Literal["rdkit"]
Fingerprint = Literal["morgan", "morgan-count"]
RADIUS, BINS = 2, 2048
LARGEST_COUNT = 255
# Ipc grows exponentially with the molecule.
LOGARITHMIC = ("Ipc",)
_SLOW_IF_LARGE = ("Ipc", "AvgIpc")
# Molecules. legs embed computes as many at once, in processes of its own.
_PARALLEL_ABOVE, _CHUNK = 2_000, 100


def feature_names(
    descriptors: Descriptors | None = None, fingerprint: Fingerprint | None = None
) -> tuple[str, ...]:
    """Names of the columns of :func:`molecule_features`; a clear error for wrong options.

    >>> feature_names(fingerprint="morgan-count")[:2]
    ('morgan-count0', 'morgan-count1')
    """
    for option, value, valid in (
        ("descriptors", descriptors, ("rdkit",)),
        ("fingerprint", fingerprint, ("morgan", "morgan-count")),
    ):
        if value not in (None, *valid):
            raise DataError(f"{option} must be {' or '.join(valid)}; got {value!r}")
    require_rdkit()
    names = [name for name, _ in _descriptors()] if descriptors else []
    return (*names, *(f"{fingerprint}{k}" for k in range(BINS if fingerprint else 0)))


def molecule_features(
    smiles: Sequence[str],
    descriptors: Descriptors | None = None,
    fingerprint: Fingerprint | None = None,
    *,
    workers: int | None = None,
) -> NDArray[np.float32]:
    r"""Features of molecules, ``[molecules, columns]``; NaN where a value is missing.

    Args:
        smiles: of the molecules.
        descriptors: ``"rdkit"`` for all of RDKit's two-dimensional descriptors, by their names.
            What is not finite is missing, and so is the information content of molecules of more
            than 300 atoms; of Ipc it is :math:`\mathrm{sign}(v) \log(1 + |v|)`.
        fingerprint: ``"morgan"`` or ``"morgan-count"`` for Morgan fingerprints of radius 2 in 2,048
            bins, as bits or as counts up to 255.
        workers: processes (default: one per core for descriptors of more than 2,000 molecules, else
            one).

    >>> molecule_features(["CCO"], fingerprint="morgan-count").sum()
    np.float32(6.0)
    """
    width = len(feature_names(descriptors, fingerprint))
    from joblib import Parallel, cpu_count, delayed

    if workers is None:
        workers = cpu_count() if descriptors and len(smiles) > _PARALLEL_ABOVE else 1
    starts = range(0, len(smiles), _CHUNK)
    tasks = (delayed(_compute)(smiles[k : k + _CHUNK], k, descriptors, fingerprint) for k in starts)
    parts = Parallel(workers)(tasks)
    return np.concatenate([np.empty((0, width), dtype=np.float32), *parts])


def with_molecule_features(
    data: GraphDataset, descriptors: Descriptors | None, fingerprint: Fingerprint | None
) -> GraphDataset:
    """A data set of molecules with :func:`molecule_features` as its graph-level features."""
    same = {"descriptors": descriptors, "fingerprint": fingerprint}
    there = data.graph_features is not None and same.items() <= data.info.items()
    if there or not any(same.values()):
        return data
    import torch

    names = feature_names(descriptors, fingerprint)
    if len(data) and not (data.smiles and all(data.smiles)):
        name = data.name or "this data set"
        raise DataError(f"descriptors and fingerprints are of molecules; {name} has no SMILES")
    values = torch.from_numpy(molecule_features(data.smiles, descriptors, fingerprint))
    info = {**data.info, **same}
    return replace(data, graph_features=values, graph_feature_names=names, info=info)


def _descriptors() -> list[tuple[str, Any]]:
    from rdkit.Chem import Descriptors

    return list(Descriptors.descList)


def _compute(
    smiles: Sequence[str], start: int, descriptors: str | None, fingerprint: str | None
) -> NDArray[np.float32]:
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdFingerprintGenerator

    functions = _descriptors() if descriptors else []
    table = np.full((len(smiles), len(functions)), np.nan)
    bins = np.zeros((len(smiles), BINS if fingerprint else 0), dtype=np.float32)
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BINS)
    with rdBase.BlockLogs(), np.errstate(all="ignore"):
        for i, text in enumerate(smiles):
            if (mol := Chem.MolFromSmiles(text)) is None:
                raise DataError(f"molecule {start + i + 1} is not a SMILES string: {text!r:.80}")
            large = mol.GetNumAtoms() > LARGEST_FOR_IPC
            for j, (name, function) in enumerate(functions):
                if not (large and name in _SLOW_IF_LARGE):
                    try:
                        table[i, j] = function(mol)
                    except Exception:  # elements without parameters, and RDKit's own faults
                        continue
            if fingerprint:
                bins[i] = np.minimum(morgan.GetCountFingerprintAsNumPy(mol), LARGEST_COUNT)
        if fingerprint == "morgan":
            bins = np.minimum(bins, 1)
        for column in [j for j, (name, _) in enumerate(functions) if name in LOGARITHMIC]:
            table[:, column] = np.sign(table[:, column]) * np.log1p(np.abs(table[:, column]))
        out = np.concatenate([table.astype(np.float32), bins], axis=1)
    out[~np.isfinite(out)] = np.nan
    return out
