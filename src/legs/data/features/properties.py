"""Properties of molecules, by RDKit; free of PyTorch, so that worker processes start quickly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from legs.data.errors import DataError
from legs.data.features.atom_table import require_rdkit

# The ten that the paper predicts for molecules of ZINC. The information content Ipc grows
# exponentially with the molecule, so its logarithm log(1 + Ipc) stands for it.
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
_PARALLEL_FROM, _CHUNK = 2_000, 250  # molecules


def properties(smiles: Sequence[str], *, workers: int | None = None) -> NDArray[np.float64]:
    """:data:`ZINC_PROPERTIES` of molecules, ``[molecules, 10]``; NaN where none is finite."""
    require_rdkit()
    # Fresh processes: see read_parallel.
    from joblib import Parallel, cpu_count, delayed

    if workers is None:
        workers = cpu_count() if len(smiles) >= _PARALLEL_FROM else 1
    size = _CHUNK if workers > 1 else max(len(smiles), 1)
    parts = [smiles[start : start + size] for start in range(0, len(smiles), size)] or [smiles]
    return np.concatenate(Parallel(workers)(delayed(_properties)(part) for part in parts))


def _properties(smiles: Sequence[str]) -> NDArray[np.float64]:
    from rdkit import Chem, rdBase
    from rdkit.Chem import Descriptors

    functions = {**dict(Descriptors.descList), "LogIpc": lambda mol: np.log1p(Descriptors.Ipc(mol))}
    values = np.full((len(smiles), len(ZINC_PROPERTIES)), np.nan)
    with rdBase.BlockLogs(), np.errstate(all="ignore"):
        for i, text in enumerate(smiles):
            if (mol := Chem.MolFromSmiles(text)) is None:
                raise DataError(f"molecule {i + 1} is not a SMILES string: {text!r:.80}")
            for j, name in enumerate(ZINC_PROPERTIES):
                if name != "LogIpc" or mol.GetNumAtoms() <= LARGEST_FOR_IPC:
                    values[i, j] = functions[name](mol)
    values[~np.isfinite(values)] = np.nan
    return values
