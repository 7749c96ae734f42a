"""Properties of molecules, computed by RDKit."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from legs.data.errors import DataError
from legs.data.features.atom_table import require_rdkit

if TYPE_CHECKING:
    from rdkit.Chem import Mol

# The ten that the paper predicts for molecules of ZINC. The information content Ipc grows
# exponentially with the molecule, so its logarithm stands for it.
ZINC_PROPERTIES = (
    "qed",
    "HeavyAtomMolWt",
    "MolWt",
    "BalabanJ",
    "BertzCT",
    "LogIpc",
    "TPSA",
    "NumHAcceptors",
    "NumHDonors",
    "RingCount",
)
# Ipc takes the fourth power of the atoms in time; above this it takes seconds and overflows.
LARGEST_FOR_IPC = 300
_PARALLEL_FROM = 2_000
_CHUNK = 250


def properties(
    molecules: Sequence[str | Mol],
    names: Sequence[str] = ZINC_PROPERTIES,
    *,
    workers: int | None = None,
) -> NDArray[np.float64]:
    """Properties of molecules, ``[molecules, names]``; NaN where RDKit finds no finite value.

    Args:
        molecules: SMILES strings or RDKit molecules.
        names: as in ``rdkit.Chem.Descriptors``, and ``LogIpc``, which is log(1 + Ipc) (default:
            the ten of the paper).
        workers: processes (default: one per core from 2,000 molecules on, one below).

    >>> properties(["CCO", "c1ccccc1"], ["MolWt", "RingCount"]).round(1).tolist()
    [[46.1, 0.0], [78.1, 1.0]]
    """
    require_rdkit()
    from rdkit.Chem import Descriptors

    offered = [*dict(Descriptors.descList), "LogIpc"]
    for name in names:
        if name not in offered:
            near = difflib.get_close_matches(name, offered, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise DataError(f"RDKit has no property {name!r}{hint}")
    # Fresh processes: see read_parallel.
    from joblib import Parallel, cpu_count, delayed

    if workers is None:
        workers = cpu_count() if len(molecules) >= _PARALLEL_FROM else 1
    if workers <= 1 or not len(molecules):
        return _properties(molecules, names)
    parts = [molecules[start : start + _CHUNK] for start in range(0, len(molecules), _CHUNK)]
    return np.concatenate(Parallel(workers)(delayed(_properties)(part, names) for part in parts))


def _properties(molecules: Sequence[str | Mol], names: Sequence[str]) -> NDArray[np.float64]:
    from rdkit import Chem, rdBase
    from rdkit.Chem import Descriptors

    functions = {**dict(Descriptors.descList), "LogIpc": _log_ipc}
    values = np.full((len(molecules), len(names)), np.nan)
    with rdBase.BlockLogs(), np.errstate(all="ignore"):
        for i, item in enumerate(molecules):
            mol = Chem.MolFromSmiles(item) if isinstance(item, str) else item
            if mol is None:
                raise DataError(f"molecule {i + 1} is not a SMILES string: {item!r:.80}")
            for j, name in enumerate(names):
                values[i, j] = functions[name](mol)
    values[~np.isfinite(values)] = np.nan
    return values


def _log_ipc(mol: Any) -> float:
    from rdkit.Chem import GraphDescriptors

    if mol.GetNumAtoms() > LARGEST_FOR_IPC:
        return float("nan")
    return float(np.log1p(GraphDescriptors.Ipc(mol)))
