"""A cross-validation as tables: for the screen, for papers, for other programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from legs.io import csv_table, file_digests, with_digest, write_atomically
from legs.models.saving import versions
from legs.training.cv.protocol import chosen_names
from legs.training.cv.results import CVResult, MethodResult, corrected_t_test
from legs.training.runs import machine_name

# Of every method, in results.json.
_METHOD = ("method", "mean", "std", "scores", "chosen", "models", "parameters", "seconds")


def summary(result: CVResult) -> pd.DataFrame:
    """One row per method: score, spread, models, parameters, time; a baseline comes first."""
    factor = _factor(result)
    name = "most frequent class" if result.data.task == "classification" else "mean"
    mean, std = factor * float(np.mean(result.baseline)), factor * float(np.std(result.baseline))
    rows: list[tuple[Any, ...]] = [(name, mean, std, 0, 0, 0.0, "")]
    for m in result.methods:
        scores = (m.method, factor * m.mean, factor * m.std)
        rows.append((*scores, m.models, m.parameters, round(m.seconds, 1), m.strategy))
    columns = ["method", "mean", "std", "models", "parameters", "seconds", "trained"]
    return pd.DataFrame(rows, columns=columns)


def comparisons(result: CVResult) -> pd.DataFrame:
    """Every pair of methods over the same test sets, by the corrected resampled t-test."""
    split = result.splits[0][0]
    fraction = len(split.test) / (len(split.train) + len(split.validation))
    rows = []
    for first, second in combinations(result.methods, 2):
        difference, t, p = corrected_t_test(first.scores, second.scores, fraction)
        rows.append((first.method, second.method, _factor(result) * difference, t, p))
    return pd.DataFrame(rows, columns=["first", "second", "difference", "t", "p"])


def _factor(result: CVResult) -> int:
    """Accuracies are shown in percent."""
    return 100 if result.data.task == "classification" else 1


def choices(result: CVResult) -> pd.DataFrame:
    """Which settings were chosen on validation loss, and for which test sets.

    One row per method and setting, the most frequent first; test sets are numbered from 0, as in
    ``folds.csv``. Empty without a grid.
    """
    rows = []
    if len(result.options.grid) > 1:
        for method in result.methods:
            names = pd.Series(_chosen(result, method))
            for name in names.value_counts().index:
                numbers = ", ".join(str(k) for k in names.index[names == name])
                rows.append({"method": method.method, "setting": name, "test sets": numbers})
    return pd.DataFrame(rows, columns=["method", "setting", "test sets"])


def markdown(table: pd.DataFrame) -> str:
    """A table in Markdown.

    >>> print(markdown(pd.DataFrame({"a": ["x|y"], "b": [0.12345]})))
    | a | b |
    |---|---|
    | x\\|y | 0.1235 |
    """
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join(_shown(value) for value in row) + " |")
    return "\n".join(lines)


def write_results(result: CVResult, directory: str | Path, command: str = "") -> None:
    """Writes summary, comparisons, every fold's score and setting, every graph's prediction."""
    folder = Path(directory)
    tables = {
        "summary": summary(result),
        "comparisons": comparisons(result),
        "folds": _folds(result),
        "predictions": _predictions(result),
    }
    for name, table in tables.items():
        write_atomically(folder / f"{name}.csv", csv_table(table).encode())
    text = f"# {result.data.name}\n\n{markdown(tables['summary'])}\n\n"
    if len(tables["comparisons"]):
        text += f"{markdown(tables['comparisons'])}\n"
    chosen = choices(result)
    if len(chosen):
        text += f"\nSettings chosen on validation loss:\n\n{markdown(chosen)}\n"
    write_atomically(folder / "results.md", text.encode())
    content = {
        "data": result.data.name,
        "graphs": len(result.data),
        "features": list(result.data.feature_names),
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_name(result.device),
        "versions": versions(),
        "options": result.options.to_json(),
        "methods": [
            {name: getattr(method, name) for name in _METHOD}
            | {"settings": _chosen(result, method), "trained": method.strategy}
            for method in result.methods
        ],
        "guess": result.baseline,
        "comparisons": tables["comparisons"].to_dict("records"),
        # A reader can tell whether these tables are still what was written.
        "files": file_digests(folder, [*(f"{name}.csv" for name in tables), "results.md"]),
    }
    write_atomically(folder / "results.json", json.dumps(with_digest(content), indent=1).encode())


def _chosen(result: CVResult, method: MethodResult) -> list[str]:
    return chosen_names(method.method, method.chosen, result.options.grid)


def _folds(result: CVResult) -> pd.DataFrame:
    rows = []
    for m in result.methods:
        columns = zip(m.scores, m.chosen, _chosen(result, m), strict=True)
        rows += [(k, m.method, *values) for k, values in enumerate(columns)]
    return pd.DataFrame(rows, columns=["test_set", "method", "score", "setting", "chosen"])


def _predictions(result: CVResult) -> pd.DataFrame:
    data = result.data
    assert data.y is not None
    tests = [models[0].test for models in result.splits]
    graphs = np.concatenate(tests)
    columns: dict[str, Any] = {
        "test_set": np.repeat(np.arange(len(tests)), [len(test) for test in tests]),
        "graph": graphs,
    }
    if data.ids:
        columns["id"] = [data.ids[graph] for graph in graphs]
    answers = {"truth": data.y[graphs]}
    answers |= {method.method: torch.cat(method.predictions) for method in result.methods}
    if data.task == "classification":
        for name, classes in answers.items():
            columns[name] = [data.class_names[k] for k in classes.tolist()]
    else:
        for k, target in enumerate(data.target_names):
            for name, values in answers.items():
                columns[f"{name}:{target}"] = values[:, k].double().numpy()
    return pd.DataFrame(columns)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", r"\|")
