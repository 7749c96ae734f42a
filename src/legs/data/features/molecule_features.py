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
from legs.data.features.atom_table import require_rdkit

if TYPE_CHECKING:
    from legs.data.dataset import GraphDataset

Descriptors = Literal["rdkit"]
Fingerprint = Literal["morgan", "morgan-count"]
RADIUS, BINS = 2, 2048
LARGEST_COUNT = 255
# The ten that the paper predicts for molecules of ZINC. LogIpc is the logarithm of Ipc below.
ZINC_PROPERTIES = (
    *("qed", "HeavyAtomMolWt", "MolWt", "BalabanJ", "BertzCT", "LogIpc", "TPSA"),
    *("NumHAcceptors", "NumHDonors", "RingCount"),
)
# Ipc grows exponentially with the molecule.
LOGARITHMIC = ("Ipc",)
# It takes the fourth power of the atoms in time; above this it takes seconds and overflows.
LARGEST_FOR_IPC = 300
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
    feature_names(descriptors, fingerprint)  # reports wrong options
    names = [name for name, _ in _descriptors()] if descriptors else []
    return _in_parallel(smiles, names, fingerprint, workers)


def properties(smiles: Sequence[str], *, workers: int | None = None) -> NDArray[np.float32]:
    """:data:`ZINC_PROPERTIES` of molecules, ``[molecules, 10]``; NaN where none is finite."""
    require_rdkit()
    names = [name.removeprefix("Log") for name in ZINC_PROPERTIES]
    return _in_parallel(smiles, names, None, workers)


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


def without_fingerprint(data: GraphDataset) -> GraphDataset:
    """A data set with descriptors alone of its :func:`molecule_features`, if there are any."""
    if not data.info.get("fingerprint") or data.graph_features is None:
        return data
    values, names = data.graph_features[:, :-BINS], data.graph_feature_names[:-BINS]
    info = {**data.info, "fingerprint": None}
    return replace(
        data, graph_features=values if names else None, graph_feature_names=names, info=info
    )


def _descriptors() -> list[tuple[str, Any]]:
    from rdkit.Chem import Descriptors

    return list(Descriptors.descList)


def _in_parallel(
    smiles: Sequence[str], names: Sequence[str], fingerprint: str | None, workers: int | None
) -> NDArray[np.float32]:
    from joblib import Parallel, cpu_count, delayed

    if workers is None:
        workers = cpu_count() if names and len(smiles) > _PARALLEL_ABOVE else 1
    starts = range(0, max(len(smiles), 1), _CHUNK)
    tasks = (delayed(_compute)(smiles[k : k + _CHUNK], k, names, fingerprint) for k in starts)
    return np.concatenate(Parallel(workers)(tasks))


def _compute(
    smiles: Sequence[str], start: int, names: Sequence[str], fingerprint: str | None
) -> NDArray[np.float32]:
    """The descriptors with these names, then the fingerprint."""
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdFingerprintGenerator

    functions = dict(_descriptors())
    table = np.full((len(smiles), len(names)), np.nan)
    bins = np.zeros((len(smiles), BINS if fingerprint else 0), dtype=np.float32)
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BINS)
    with rdBase.BlockLogs(), np.errstate(all="ignore"):
        for i, text in enumerate(smiles):
            if (mol := Chem.MolFromSmiles(text)) is None:
                raise DataError(f"molecule {start + i + 1} is not a SMILES string: {text!r:.80}")
            large = mol.GetNumAtoms() > LARGEST_FOR_IPC
            for j, name in enumerate(names):
                if not (large and name in _SLOW_IF_LARGE):
                    try:
                        table[i, j] = functions[name](mol)
                    except Exception:  # elements without parameters, and RDKit's own faults
                        continue
            if fingerprint:
                bins[i] = np.minimum(morgan.GetCountFingerprintAsNumPy(mol), LARGEST_COUNT)
        if fingerprint == "morgan":
            bins = np.minimum(bins, 1)
        for column in [j for j, name in enumerate(names) if name in LOGARITHMIC]:
            table[:, column] = np.sign(table[:, column]) * np.log1p(np.abs(table[:, column]))
        out = np.concatenate([table.astype(np.float32), bins], axis=1)
    out[~np.isfinite(out)] = np.nan
    return out
