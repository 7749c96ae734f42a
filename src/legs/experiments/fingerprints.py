"""Morgan fingerprints, with ridge regression and random forests on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from legs.data.atom_table import require_rdkit
from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.training.cv_grid import Setting

RADIUS, BITS = 2, 2048
RIDGE_GRID: tuple[Setting, ...] = tuple(
    {"alpha": alpha} for alpha in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
)
FOREST_GRID: tuple[Setting, ...] = tuple(
    {"trees": 200, "features": share} for share in ("sqrt", 0.1, 0.3)
)
WORDS = (
    f"Morgan fingerprints of RDKit, radius {RADIUS}, {BITS} bits (ECFP4); ridge regression with α "
    "and random forests with the share of features a split looks at, both chosen on validation "
    "error, for each test set."
)

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
# Whitened predictions by graph numbers, and the number of parameters.
Model = tuple[Callable[[Indices], Floats], int]


def morgan(data: GraphDataset) -> npt.NDArray[np.float32]:
    """Fingerprints of all molecules of a set, ``[molecules, bits]``, zeros and ones.

    Args:
        data: with SMILES.
    """
    if not data.smiles:
        raise DataError(f"{data.name} has no SMILES here; fingerprints need them")
    return morgan_bits(data.smiles)


def morgan_bits(smiles: tuple[str, ...] | list[str]) -> npt.NDArray[np.float32]:
    """Fingerprints of molecules, ``[molecules, bits]``, zeros and ones.

    Args:
        smiles: one a molecule.

    >>> bits = morgan_bits(["CCO", "OCC", "c1ccccc1"])
    >>> bits.shape, bool((bits[0] == bits[1]).all()), bits.sum(1).tolist()
    ((3, 2048), True, [6.0, 6.0, 3.0])
    """
    require_rdkit()
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    found = np.zeros((len(smiles), BITS), dtype=np.float32)
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            mol = Chem.MolFromSmiles(text)
            if mol is None:
                raise DataError(f"molecule {row + 1}: not a SMILES string: {text[:80]!r}")
            found[row] = generator.GetFingerprintAsNumPy(mol)
    return found


def fit_ridge(bits: Array, train: Indices, target: Floats, setting: Setting, seed: int) -> Model:
    """Ridge regression.

    Args:
        bits: fingerprints of all molecules.
        train: numbers of the training molecules.
        target: their whitened targets, ``[molecules, targets]``.
        setting: ``alpha``.
        seed: of nothing: there is nothing random in it.
    """
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=setting["alpha"]).fit(bits[train].astype(np.float64), target)

    def predict(index: Indices) -> Floats:
        return np.asarray(model.predict(bits[index].astype(np.float64))).reshape(len(index), -1)

    return predict, int(model.coef_.size + np.size(model.intercept_))


def fit_forest(bits: Array, train: Indices, target: Floats, setting: Setting, seed: int) -> Model:
    """A random forest; its parameters are counted as the nodes of all trees.

    Args:
        bits: fingerprints of all molecules.
        train: numbers of the training molecules.
        target: their whitened targets, ``[molecules, targets]``.
        setting: ``trees``, and ``features``: the share of them that a split looks at.
        seed: of the trees.
    """
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(
        setting["trees"], max_features=setting["features"], random_state=seed, n_jobs=-1
    )
    # A column alone must come as a vector.
    model.fit(bits[train], target if target.shape[1] > 1 else target[:, 0])

    def predict(index: Indices) -> Floats:
        return np.asarray(model.predict(bits[index])).reshape(len(index), -1)

    return predict, sum(tree.tree_.node_count for tree in model.estimators_)
