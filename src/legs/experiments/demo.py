"""The demonstration: fixed scattering of real molecules, and a ridge regression on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legs.sklearn import GeometricScattering

if TYPE_CHECKING:
    from rdkit.Chem import Mol

# By their names in rdkit.Chem.Descriptors.
PROPERTIES = ("MolWt", "MolLogP", "TPSA", "qed", "RingCount", "NumHDonors", "BertzCT")


@dataclass(frozen=True)
class Score:
    """How well one property was predicted on the test compounds, in the property's own units."""

    name: str
    mean_rmse: float
    ridge_rmse: float
    r2: float


@dataclass(frozen=True)
class Demo:
    """What the demonstration found; ``skipped`` counts lines that RDKit cannot read."""

    compounds: int
    skipped: int
    features: int
    train: int
    test: int
    scattering_seconds: float
    scores: tuple[Score, ...]


def run(limit: int | None = None, *, seed: int = 0) -> Demo:
    """Scatter the NCI compounds inside RDKit's package and regress their properties.

    80 % of the compounds fit the regression and choose its penalty, 20 % test it.

    Args:
        limit: Read only the first ``limit`` lines of the file; all by default.
        seed: Of the random split.
    """
    molecules, skipped = read_smiles(nci_file(), limit)
    if len(molecules) < 10:
        raise ValueError(
            f"the demo needs at least 10 compounds, and only {len(molecules)} could be read; "
            "raise the limit"
        )
    targets = properties(molecules)
    start = time.perf_counter()
    features = np.asarray(GeometricScattering().fit_transform(molecules), dtype=np.float64)
    seconds = time.perf_counter() - start

    x_fit, x_test, y_fit, y_test = train_test_split(
        features, targets, test_size=0.2, random_state=seed
    )
    # The properties differ in scale and in noise, so each has its own penalty.
    ridge = RidgeCV(alphas=np.logspace(-2, 6, 17), alpha_per_target=True)
    predicted = make_pipeline(StandardScaler(), ridge).fit(x_fit, y_fit).predict(x_test)
    constant = np.broadcast_to(y_fit.mean(axis=0), y_test.shape)
    columns = zip(
        PROPERTIES,
        root_mean_squared_error(y_test, constant, multioutput="raw_values"),
        root_mean_squared_error(y_test, predicted, multioutput="raw_values"),
        r2_score(y_test, predicted, multioutput="raw_values"),
        strict=True,
    )
    return Demo(
        compounds=len(molecules),
        skipped=skipped,
        features=features.shape[1],
        train=len(x_fit),
        test=len(x_test),
        scattering_seconds=seconds,
        scores=tuple(Score(name, float(a), float(b), float(c)) for name, a, b, c in columns),
    )


def nci_file() -> Path:
    """The file of NCI compounds (SMILES and number a line) that RDKit's package carries."""
    try:
        from rdkit import RDConfig
    except ImportError as error:
        raise ImportError("the demo needs RDKit: pip install 'torch-legs[chem]'") from error
    path = Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi"
    if not path.is_file():
        raise FileNotFoundError(
            f"this build of RDKit lacks the compounds the demo reads ({path}); "
            "the one that pip installs has them"
        )
    return path


def read_smiles(path: Path, limit: int | None = None) -> tuple[list[Mol], int]:
    """Molecules of the first ``limit`` lines of a SMILES file, and how many were unreadable."""
    from rdkit import Chem

    with path.open(encoding="utf-8") as lines, _rdkit_silenced():
        words = [line.split(maxsplit=1) for line in islice(lines, limit) if line.strip()]
        read = [Chem.MolFromSmiles(first) for first, *_ in words]
    molecules = [molecule for molecule in read if molecule is not None]
    return molecules, len(read) - len(molecules)


def properties(molecules: list[Mol]) -> NDArray[np.float64]:
    """Values of ``PROPERTIES`` by RDKit, of shape [molecules, properties]."""
    from rdkit.Chem import Descriptors

    functions = dict(Descriptors.descList)
    rows = [[functions[name](molecule) for name in PROPERTIES] for molecule in molecules]
    return np.asarray(rows, dtype=np.float64)


@contextmanager
def _rdkit_silenced() -> Iterator[None]:
    """Keep RDKit from writing a paragraph for every SMILES it cannot read; they are counted."""
    from rdkit import rdBase

    # BlockLogs restores what was enabled before when it is let go.
    block = rdBase.BlockLogs()
    try:
        yield
    finally:
        del block
