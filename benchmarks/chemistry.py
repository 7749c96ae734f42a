"""Tables of molecules: ``auto`` and ``legs-deep`` beside trees on descriptors and fingerprints.

    python -m benchmarks.chemistry FOLDER --data DIRECTORY [--sets esol freesolv] [--seeds 2]

Every cell, a set, split and method, is a JSON file in FOLDER; those that exist are not run again.
DIRECTORY holds MoleculeNet's esol.csv, freesolv.csv, bbbp.csv and tox21.csv. All methods train on
the same rows, validation rows included (``legs-deep`` stops by these), and are scored on the test
rows: root mean squared error, or the mean ROC-AUC of the labels. Trees have scikit-learn's defaults
and, like ``auto``, RDKit's descriptors and Morgan counts. The table has means over the splits, with
the standard deviation between them.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import roc_auc_score

from legs.data import GraphDataset, load, splits
from legs.data.splits import Split
from legs.io import write_atomically
from legs.training import fit

SETS: dict[str, dict[str, Any]] = {
    "esol": {"target": "logSolubility"},
    "freesolv": {"target": "freesolv"},
    "bbbp": {"target": "p_np"},
    "tox21": {"task": "multilabel"},
}
METHODS = ("forest-default", "boosting-default", "kernel", "auto", "legs-deep")
SPLITS = ("random", "scaffold")


def main() -> None:
    """Runs the missing cells and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS])
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=[*SPLITS])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=3.0, help="of auto")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for method in options.methods:
        for name in options.sets:
            data: GraphDataset | None = None
            for kind in options.splits:
                for seed in range(options.seeds):
                    path = options.folder / f"{name}-{kind}-{seed}-{method}.json"
                    if path.exists():
                        continue
                    data = data or read(options.data, name)
                    cell = run(data, kind, seed, method, options.minutes)
                    cell = {"set": name, "split": kind, "seed": seed, "method": method, **cell}
                    write_atomically(path, json.dumps(cell, indent=1).encode())
                    print(path.stem, f"{cell['score']:.4f}", f"{cell['seconds']:.0f} s", flush=True)
    print_table(options.folder)


def read(folder: Path, name: str) -> GraphDataset:
    """A set with descriptors and fingerprints."""
    features = {"descriptors": "rdkit", "fingerprint": "morgan-count"}
    columns = dict(SETS[name])
    if name == "tox21":
        header = (folder / "tox21.csv").read_text(encoding="utf-8").split("\n")[0]
        columns["target"] = header.strip().split(",")[1:]
    return load(folder / f"{name}.csv", on_error="skip", **columns, **features)


def split_of(data: GraphDataset, kind: str, seed: int) -> Split:
    """80/10/10 at random, or by scaffold with classes in proportion."""
    if kind == "random":
        return splits.random_split(len(data), seed=seed)
    classes = data.y if data.task == "classification" else None
    smiles = splits.canonical_smiles(data.smiles)
    folds = splits.scaffold_folds(smiles, k=10, seed=seed, y=classes)
    return Split(np.sort(np.concatenate(folds[2:])), folds[1], folds[0])


def run(data: GraphDataset, kind: str, seed: int, method: str, minutes: float) -> dict[str, Any]:
    """The score of a method on a split, and how long it took."""
    split, start = split_of(data, kind, seed), time.monotonic()
    candidates: list[Any] = []
    if method.endswith("-default"):
        answers = trees(data, split, method.removesuffix("-default"), seed)
    else:
        options = {} if method == "legs-deep" else {"minutes": minutes}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = fit(data, method, split, model_options=options, group_by=None)
        candidates = getattr(fitted.predictor.answerer, "candidates", [])
        answers = fitted.predictor.predict(data.subset(split.test)).double().numpy()
        answers = answers[:, 1:] if data.task == "classification" else answers
    seconds = time.monotonic() - start
    assert data.y is not None
    y = data.y[split.test].double().reshape(len(split.test), -1).numpy()
    scores = []
    for truth, answer in zip(y.T, answers.T, strict=True):
        rows = ~np.isnan(truth)
        if data.task == "regression":
            scores.append(float(np.sqrt(np.mean((truth - answer)[rows] ** 2))))
        elif len(np.unique(truth[rows])) == 2:
            scores.append(float(roc_auc_score(truth[rows], answer[rows])))
    return {"score": float(np.mean(scores)), "seconds": seconds, "candidates": candidates}


def trees(data: GraphDataset, split: Split, kind: str, seed: int) -> Any:
    """Answers for the test rows, ``[rows, targets]``, by a model per target."""
    assert data.graph_features is not None and data.y is not None
    x = data.graph_features.nan_to_num(0.0).numpy()
    y = data.y.double().reshape(len(data), -1).numpy()
    train = np.concatenate([split.train, split.validation])
    regression = data.task == "regression"
    models: Any = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
    if kind == "forest":
        models = (RandomForestClassifier, RandomForestRegressor)
    answers = []
    for column in y.T:
        rows = train[~np.isnan(column[train])]
        model = models[regression](random_state=seed).fit(x[rows], column[rows])
        test = x[split.test]
        answers.append(model.predict(test) if regression else model.predict_proba(test)[:, 1])
    return np.stack(answers, axis=1)


def print_table(folder: Path) -> None:
    """Means and standard deviations over splits."""
    cells = pd.DataFrame([json.loads(path.read_text()) for path in folder.glob("*.json")])
    groups = cells.groupby(["set", "split", "method"])
    table = groups.agg(score=("score", "mean"), splits=("score", "size"))
    table.insert(1, "deviation", groups["score"].std(ddof=0))
    print(table.assign(seconds=groups["seconds"].mean().round()).round(3).to_string())


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
