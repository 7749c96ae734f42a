"""Tables of molecules: ``auto`` and ``legs-deep`` beside chemprop and trees, on the same rows.

    python -m benchmarks.chemistry FOLDER --data DIRECTORY [--sets esol freesolv] [--seeds 2]
        [--chemprop ENVIRONMENT] [--device cuda]

Every cell, a set, split and method, is a JSON file in FOLDER/scores; those that exist are not run
again. FOLDER/results.md is made of them.
DIRECTORY holds MoleculeNet's esol.csv, freesolv.csv, bbbp.csv and tox21.csv; the other sets are
loaded by name. All methods train on the same rows, validation rows included (``legs-deep`` and
chemprop stop by these), and are scored on the test rows: root mean squared error (of standardized
targets, the mean, where there are several), or the mean ROC-AUC of the labels. Trees have
scikit-learn's defaults and, like ``auto``, RDKit's descriptors and Morgan counts; zinc-bbab, whose
targets are descriptors, has counts alone. chemprop, with its defaults, is that of an environment
of its own (``ENVIRONMENT/bin/chemprop``).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import tempfile
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

from benchmarks.provenance import installed, provenance
from legs.data import GraphDataset, load, splits
from legs.data.features.molecule_features import without_fingerprint
from legs.data.splits import Split
from legs.io import write_atomically
from legs.training import fit
from legs.training.auto import described

SETS: dict[str, dict[str, Any]] = {
    "esol": {"target": "logSolubility"},
    "freesolv": {"target": "freesolv"},
    "bbbp": {"target": "p_np"},
    "tox21": {"task": "multilabel"},
    **{name: {} for name in ("ki-p00918", "ki-p14416", "zinc-bbab")},
}
METHODS = ("forest-default", "boosting-default", "kernel", "auto", "legs-deep", "chemprop")
SPLITS = ("random", "scaffold")
HIGHER = ("bbbp", "tox21")  # sets whose score is an area under the curve
PAGE = """# Tables of molecules

`python -m benchmarks.chemistry docs/results/chemistry`: `legs train` with its defaults (`auto`) and
`legs-deep` alone, beside chemprop with its defaults and scikit-learn's random forest and gradient
boosting (on RDKit's descriptors and Morgan counts), on the same rows: 80 % train, 10 % validate and
10 % test, at random or by scaffold. Scores are root mean squared errors in the target's units
(zinc-bbab: the mean over ten standardized targets), or areas under the ROC curve (bbbp; tox21: the
mean over twelve labels): mean ± standard deviation over splits, and how many. *auto behind* is its
mean difference from the best other method, with its standard error, and ranks are of such
differences: on the splits that both have."""


def main() -> None:
    """Runs the missing cells, and writes and prints the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS])
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=[*SPLITS])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, help="of auto; its default otherwise")
    parser.add_argument("--limit", type=int, help="molecules, to try a cell")
    parser.add_argument("--chemprop", type=Path, help="environment that has it")
    parser.add_argument("--device", default="cpu", help="of legs-deep and chemprop")
    options = parser.parse_args()
    (options.folder / "scores").mkdir(parents=True, exist_ok=True)
    chosen = [m for m in options.methods if m != "chemprop" or options.chemprop]
    for method in chosen:
        for name in options.sets:
            data: GraphDataset | None = None
            for kind in options.splits:
                for seed in range(options.seeds):
                    path = options.folder / "scores" / f"{name}-{kind}-{seed}-{method}.json"
                    if path.exists():
                        continue
                    data = data or read(options.data, name, options.limit)
                    if method == "chemprop":
                        program = options.chemprop / "bin/chemprop"
                        cell = run_chemprop(data, kind, seed, program, options.device)
                    else:
                        cell = run(data, kind, seed, method, options.minutes, options.device)
                    cell = {"set": name, "split": kind, "seed": seed, "method": method, **cell}
                    used = options.device if method in ("legs-deep", "chemprop") else "cpu"
                    cell |= {"rows": len(data), **provenance(used)}
                    cell["versions"] |= installed("rdkit", "chemprop")
                    write_atomically(path, json.dumps(cell, indent=1).encode())
                    print(path.stem, f"{cell['score']:.4f}", f"{cell['seconds']:.0f} s", flush=True)
    print(write_page(options.folder))


def read(folder: Path, name: str, limit: int | None = None) -> GraphDataset:
    """A set with descriptors and fingerprints."""
    if "-" in name:
        return described(load(name, limit=limit))
    features = {"descriptors": "rdkit", "fingerprint": "morgan-count", "limit": limit}
    columns = dict(SETS[name])
    if name == "tox21":
        header = (folder / "tox21.csv").read_text(encoding="utf-8").split("\n")[0]
        columns["target"] = header.strip().split(",")[1:]
    return load(folder / f"{name}.csv", on_error="skip", **columns, **features)


def split_of(data: GraphDataset, kind: str, seed: int) -> Split:
    """80/10/10 at random, or by scaffold: large ones train, classes in proportion."""
    if kind == "random":
        return splits.random_split(len(data), seed=seed)
    classes = data.y if data.task == "classification" else None
    return splits.scaffold_split(splits.canonical_smiles(data.smiles), seed=seed, y=classes)


def run(
    data: GraphDataset, kind: str, seed: int, method: str, minutes: float | None, device: str
) -> dict[str, Any]:
    """The score of a method on a split, and how long it took."""
    split, start, cpu = split_of(data, kind, seed), time.monotonic(), cpu_seconds()
    more: dict[str, Any] = {}
    if method.endswith("-default"):
        answers = trees(data, split, method.removesuffix("-default"), seed)
    else:
        options = {} if method == "legs-deep" or minutes is None else {"minutes": minutes}
        if method == "legs-deep":
            data = without_fingerprint(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = fit(
                data,
                method,
                split,
                model_options=options,
                group_by=None,
                device=device if method == "legs-deep" else "cpu",
            )
        more["candidates"] = getattr(fitted.predictor.answerer, "candidates", [])
        more["coverage"] = fitted.coverage
        answers = fitted.predictor.predict(data.subset(split.test)).double().numpy()
        answers = answers[:, 1:] if data.task == "classification" else answers
    more |= {"seconds": time.monotonic() - start, "cpu_seconds": cpu_seconds() - cpu}
    if data.task != "regression":
        more["bins"] = reliability(data, split, answers)
    return {"score": score(data, split, answers), **more}


def reliability(data: GraphDataset, split: Split, answers: Any) -> list[list[float]]:
    """Labels in tenths of their predicted probability: how many, mean probability, share."""
    assert data.y is not None
    truths = data.y.double().reshape(len(data), -1).numpy()[split.test]
    present = ~np.isnan(truths)
    table = pd.DataFrame({"predicted": answers[present], "observed": truths[present]})
    bins = table.groupby((10 * table["predicted"]).clip(0, 9.999).astype(int))
    return bins.agg(["size", "mean"]).iloc[:, [0, 1, 3]].to_numpy().tolist()


def cpu_seconds() -> float:
    """Of this process and those it has waited for."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, who))


def score(data: GraphDataset, split: Split, answers: Any) -> float:
    """Of answers ``[rows, targets]`` for the test rows."""
    assert data.y is not None
    truths = data.y.double().reshape(len(data), -1).numpy()
    train = truths[np.concatenate([split.train, split.validation])]
    scales = np.nanstd(train, axis=0) if truths.shape[1] > 1 else np.ones(1)
    scores = []
    for truth, answer, scale in zip(truths[split.test].T, answers.T, scales, strict=True):
        rows = ~np.isnan(truth)
        if data.task == "regression":
            scores.append(float(np.sqrt(np.mean((truth - answer)[rows] ** 2)) / scale))
        elif len(np.unique(truth[rows])) == 2:
            scores.append(float(roc_auc_score(truth[rows], answer[rows])))
    return float(np.mean(scores))


def run_chemprop(
    data: GraphDataset, kind: str, seed: int, program: Path, device: str
) -> dict[str, Any]:
    """The score of chemprop with its defaults."""
    split, start, cpu = split_of(data, kind, seed), time.monotonic(), cpu_seconds()
    assert data.y is not None
    y = data.y.double().reshape(len(data), -1).numpy()
    names = [f"y{k}" for k in range(y.shape[1])]
    table = pd.DataFrame(y, columns=names)
    table.insert(0, "smiles", data.smiles)
    for part, name in (("train", "train"), ("validation", "val"), ("test", "test")):
        table.loc[getattr(split, part), "split"] = name
    with tempfile.TemporaryDirectory() as folder:
        table.to_csv(f"{folder}/table.csv", index=False)
        words = [str(program), "train", "--data-path", f"{folder}/table.csv", "--target-columns"]
        words += [*names, "--smiles-columns", "smiles", "--splits-column", "split"]
        words += ["--task-type", "regression" if data.task == "regression" else "classification"]
        words += ["--output-dir", f"{folder}/out", "--num-workers", "0"]
        words += ["--accelerator", "cpu" if device == "cpu" else "gpu", "--devices", "1"]
        words += ["--pytorch-seed", str(seed)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"chemprop failed:\n{done.stderr[-2000:]}")
        (file,) = Path(folder).glob("out/**/test_predictions.csv")
        answers = pd.read_csv(file)
    tested = [data.smiles[k] for k in np.sort(split.test)]
    if [*answers["smiles"]] != tested:
        raise RuntimeError("chemprop has predicted other rows")
    more = {"seconds": time.monotonic() - start, "cpu_seconds": cpu_seconds() - cpu}
    own = split._replace(test=np.sort(split.test))
    return {"score": score(data, own, answers[names].to_numpy()), **more}


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


def write_page(folder: Path) -> str:
    """Writes the table of all cells, and the reliability of probabilities, and returns the page."""
    cells = pd.DataFrame([json.loads(path.read_text()) for path in folder.glob("scores/*.json")])
    cells = cells.reindex(columns=[*cells, *{"coverage", "bins"}.difference(cells)])
    by = ["set", "split", "method"]
    losses = cells["score"].where(~cells["set"].isin(HIGHER), -cells["score"])
    wide = cells.assign(score=losses).pivot(
        index=["set", "split", "seed"], columns="method", values="score"
    )
    # How far every method is behind auto on the splits that both have.
    own = wide["auto"] if "auto" in wide else pd.Series(0.0, wide.index)
    gaps = wide.sub(own, axis=0).groupby(level=[0, 1]).agg(["mean", "sem"])
    means = gaps.xs("mean", axis=1, level=1).dropna(how="all")
    scores = cells.groupby(by)["score"].agg(["mean", "std", "size"])
    rows = []
    for where, group in scores.groupby(level=[0, 1]):
        row = {"set": where[0], "split": where[1]}
        for method, (mean, deviation, size) in group.droplevel([0, 1]).iterrows():
            row[method] = f"{mean:.3f} ± {deviation:.3f} ({size:.0f})".replace(" ± nan", "")
        if "auto" in means and where in means.index:
            best = means.loc[where].drop("auto").idxmin()
            gap, error = gaps.loc[where, best]
            row["auto behind"] = "first" if gap >= 0 else f"{-gap:.3f} ± {error:.3f} ({best})"
        rows.append(row)
    ranks = means.rank(axis=1).mean().sort_values().round(2)
    cpu = cells[cells["device"].str.startswith("CPU")]
    cpu = cpu.pivot_table("cpu_seconds", "set", "method").round(0)
    covered = cells[(cells["split"] == "random") & cells["coverage"].notna()]
    parts = [PAGE, _markdown(pd.DataFrame(rows).fillna("").set_index("set"))]
    parts += ["Mean rank, beside auto:", _markdown(ranks.to_frame("mean rank"))]
    parts += ["Seconds of CPU, of cells that were run on one:", _markdown(cpu.fillna("–"))]
    if len(covered):
        share = np.average(covered["coverage"].astype(float), weights=covered["rows"])
        parts.append(f"Intervals of 90 % cover {share:.1%} of test values over random splits.")
    if cells["bins"].notna().any():
        _draw_reliability(cells[cells["bins"].notna()], folder / "reliability.svg")
        parts.append("![Reliability of the probabilities of auto](reliability.svg)")
    for name in ("device", "commit"):
        parts.append(f"{name.capitalize()}: " + "; ".join(sorted(cells[name].unique())) + ".")
    text = "\n\n".join(parts) + "\n"
    write_atomically(folder / "results.md", text.encode())
    return text


def _markdown(table: pd.DataFrame) -> str:
    table = table.reset_index()
    lines = [[*table], ["---"] * len(table.columns), *table.astype(str).to_numpy()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _draw_reliability(cells: pd.DataFrame, file: Path) -> None:
    """Observed share over mean predicted probability, all splits of a set together."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(4, 4))
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, group in cells[cells["method"] == "auto"].groupby("set"):
        bins = pd.DataFrame([row for rows in group["bins"] for row in rows])
        place = (10 * bins[1]).clip(0, 9.999).astype(int)
        sums = bins[[1, 2]].mul(bins[0], axis=0).groupby(place).sum()
        shares = sums.div(bins[0].groupby(place).sum(), axis=0)
        axes.plot(shares[1], shares[2], marker="o", markersize=4, label=name)
    axes.set(xlabel="predicted probability", ylabel="observed share")
    axes.legend(frameon=False)
    figure.savefig(file, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
