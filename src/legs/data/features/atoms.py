"""Node features of molecules: which element, in which surroundings.

The vocabularies are fixed, so that the molecules a model is shown later get the same columns as
the ones it was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from legs.data.features.atom_table import COLUMNS
from legs.data.readers.base import Features

# The ten columns of an organic molecule's graph; everything else (metals, B, Si, …) is "other".
ELEMENTS = {"C": 6, "N": 7, "O": 8, "S": 16, "F": 9, "Cl": 17, "Br": 35, "I": 53, "P": 15}
QM9_ELEMENTS = {"H": 1, "C": 6, "N": 7, "O": 8, "F": 9}

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


def atom_blocks(
    table: NDArray[np.int16], *, hydrogens: bool = False
) -> Mapping[str, Callable[[], Features]]:
    """The feature blocks ``"atoms"``, ``"qm9"`` and ``"chem"``, each computed when called."""
    return {
        "atoms": partial(atom_types, table, hydrogens=hydrogens),
        "qm9": partial(qm9_features, table),
        "chem": partial(chem_features, table, hydrogens=hydrogens),
    }


def atom_types(table: NDArray[np.int16], *, hydrogens: bool = False) -> Features:
    """One-hot atom type: C, N, O, S, F, Cl, Br, I, P, other; before them H with ``hydrogens``."""
    return _features(_types(table, hydrogens))


def qm9_features(table: NDArray[np.int16]) -> Features:
    """The eleven atom features of PyG's QM9, in its order.

    PyG reads QM9 without perceiving aromaticity and hybridisation, so that four of its columns are
    zero throughout; here they hold what they are named after.
    """
    columns = _columns(table)
    number = columns["atomic_number"]
    return _features(
        {
            **{name: number == z for name, z in QM9_ELEMENTS.items()},
            **{name: columns[name] for name in ("atomic_number", "aromatic")},
            **_hybridization(columns),
            "hydrogens": columns["hydrogens"],
        }
    )


def chem_features(table: NDArray[np.int16], *, hydrogens: bool = False) -> Features:
    """A compact, rich description of an atom, the default for a user's molecules; all finite."""
    columns = _columns(table)
    ring, number = columns["ring_size"], np.clip(columns["atomic_number"], 0, _LAST_ELEMENT)
    return _features(
        {
            **_types(table, hydrogens),
            **{name: columns[name] for name in ("degree", "hydrogens", "charge", "aromatic")},
            "ring": ring > 0,
            "ring_size": np.minimum(ring, 12) / 6,
            **_hybridization(columns),
            "stereo": columns["chiral"],
            **{name: values[number] for name, values in _of_elements().items()},
        }
    )


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


def _columns(table: NDArray[np.int16]) -> dict[str, NDArray[np.int16]]:
    return dict(zip(COLUMNS, table.T, strict=True))


def _types(table: NDArray[np.int16], hydrogens: bool) -> dict[str, NDArray[Any]]:
    number = _columns(table)["atomic_number"]
    elements = {"H": 1, **ELEMENTS} if hydrogens else ELEMENTS
    one_hot: dict[str, NDArray[Any]] = {name: number == z for name, z in elements.items()}
    return {**one_hot, "other": ~np.isin(number, list(elements.values()))}


def _hybridization(columns: Mapping[str, NDArray[np.int16]]) -> dict[str, NDArray[Any]]:
    return {name: columns["hybridization"] == n for name, n in (("sp", 2), ("sp2", 3), ("sp3", 4))}


def _features(columns: Mapping[str, NDArray[Any]]) -> Features:
    x = np.stack([values.astype(np.float32) for values in columns.values()], axis=1)
    return Features(torch.from_numpy(x), tuple(columns))
