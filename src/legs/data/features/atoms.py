"""Node features of molecules: which element, in which surroundings.

The vocabularies are fixed, so that the molecules a model is shown later get the same columns as
the ones it was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from legs.data.features.atom_table import COLUMNS
from legs.data.readers.base import Features

Table: TypeAlias = NDArray[np.int16]  # [atoms, len(COLUMNS)]

# One-hot columns; everything else (metals, B, Si, …) is "other".
ELEMENTS = {"C": 6, "N": 7, "O": 8, "S": 16, "F": 9, "Cl": 17, "Br": 35, "I": 53, "P": 15}
NUMBERS = {"H": 1, **ELEMENTS}
HYBRIDIZATIONS = {"sp": 2, "sp2": 3, "sp3": 4}
QM9 = (*("H", "C", "N", "O", "F"), "atomic_number", "aromatic", *HYBRIDIZATIONS, "hydrogens")
CHEM = (
    *("degree", "hydrogens", "charge", "aromatic", "ring", "ring_size", *HYBRIDIZATIONS, "stereo"),
    *("mass", "electronegativity", "covalent_radius", "outer_electrons"),
)

# Pauling's scale by atomic number; elements without a value (noble gases, dummy atoms) get 0.
_ELECTRONEGATIVITY = (
    "0 2.20 0 0.98 1.57 2.04 2.55 3.04 3.44 3.98 0 0.93 1.31 1.61 1.90 2.19 2.58 3.16 0 "
    "0.82 1.00 1.36 1.54 1.63 1.66 1.55 1.83 1.88 1.91 1.90 1.65 1.81 2.01 2.18 2.55 2.96 3.00 "
    "0.82 0.95 1.22 1.33 1.6 2.16 1.9 2.2 2.28 2.20 1.93 1.69 1.78 1.96 2.05 2.1 2.66 2.6 "
    "0.79 0.89 1.10 1.12 1.13 1.14 1.13 1.17 1.2 1.2 1.1 1.22 1.23 1.24 1.25 1.1 1.27 "
    "1.3 1.5 2.36 1.9 2.2 2.20 2.28 2.54 2.00 1.62 2.33 2.02 2.0 2.2 0 "
    "0.7 0.9 1.1 1.3 1.5 1.38 1.36 1.28 1.3 1.3 1.3 1.3 1.3 1.3 1.3 1.3 1.3"
)
_LAST_ELEMENT = 118


def atom_blocks(table: Table, *, hydrogens: bool = False) -> Mapping[str, Callable[[], Features]]:
    """The feature blocks ``"atoms"``, ``"qm9"`` and ``"chem"``, each computed when called.

    * ``"atoms"``: one-hot atom type: C, N, O, S, F, Cl, Br, I, P, other; before them H with
      ``hydrogens``.
    * ``"qm9"``: the eleven atom features of PyG's QM9, in its order. PyG reads QM9 without
      perceiving aromaticity and hybridisation, so that four of its columns are zero throughout;
      here they hold what they are named after.
    * ``"chem"``: the atom type and a compact, rich description, the default for a user's molecules;
      all finite.
    """
    types = (*(NUMBERS if hydrogens else ELEMENTS), "other")
    blocks = {"atoms": types, "qm9": QM9, "chem": (*types, *CHEM)}
    return {block: partial(_features, table, names) for block, names in blocks.items()}


def _features(table: Table, names: Sequence[str]) -> Features:
    columns = dict(zip(COLUMNS, table.T, strict=True))
    number, ring = columns["atomic_number"], columns["ring_size"]
    elements = [NUMBERS[name] for name in names if name in NUMBERS]

    def column(name: str) -> Any:
        if name in NUMBERS:
            return number == NUMBERS[name]
        if name in HYBRIDIZATIONS:
            return columns["hybridization"] == HYBRIDIZATIONS[name]
        if name == "other":
            return ~np.isin(number, elements)
        if name == "ring":
            return ring > 0
        if name == "ring_size":
            return np.minimum(ring, 12) / 6
        if name == "stereo":
            return columns["chiral"]
        if name in columns:
            return columns[name]
        return _of_elements()[name][np.clip(number, 0, _LAST_ELEMENT)]

    x = np.stack([column(name).astype(np.float32) for name in names], axis=1)
    return Features(torch.from_numpy(x), tuple(names))


@cache
def _of_elements() -> dict[str, NDArray[np.float64]]:
    """Properties of the elements by atomic number, ``[_LAST_ELEMENT + 1]`` each."""
    from rdkit import Chem

    table = Chem.GetPeriodicTable()
    numbers = range(1, _LAST_ELEMENT + 1)
    pauling = np.array(_ELECTRONEGATIVITY.split(), dtype=np.float64)
    # The dummy atom * has no mass and no size.
    return {
        "mass": np.array([0.0, *(table.GetAtomicWeight(z) / 100 for z in numbers)]),
        "electronegativity": np.pad(pauling, (0, _LAST_ELEMENT + 1 - len(pauling))),
        "covalent_radius": np.array([0.0, *(table.GetRcovalent(z) for z in numbers)]),
        "outer_electrons": np.array([0.0, *(table.GetNOuterElecs(z) / 8 for z in numbers)]),
    }
