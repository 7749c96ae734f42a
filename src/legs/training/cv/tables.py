"""A cross-validation as tables: for the screen, for papers, for other programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from legs.io import csv_table, file_digests, with_digest, write_atomically
from legs.models.saving import versions
from legs.training.cv.protocol import chosen_names
from legs.training.cv.results import CVResult, MethodResult, corrected_t_test
from legs.training.runs import machine_name


def summary(result: CVResult) -> pd.DataFrame:
    """One row per method: score, spread, models, parameters, time; a baseline comes first."""
    accuracy = result.data.task == "classification"
    factor = 100 if accuracy else 1
    rows: list[dict[str, Any]] = [
        {
            "method": "most frequent class" if accuracy else "mean",
            "mean": factor * float(np.mean(result.baseline)),
            "std": factor * float(np.std(result.baseline)),
            "models": 0,
            "parameters": 0,
            "seconds": 0.0,
            "trained": "",
        }
    ]
    for method in result.methods:
        rows.append(
            {
                "method": method.method,
                "mean": factor * method.mean,
                "std": factor * method.std,
                "models": method.models,
                "parameters": method.parameters,
                "seconds": round(method.seconds, 1),
                "trained": method.strategy,
            }
        )
    return pd.DataFrame(rows)


def comparisons(result: CVResult) -> pd.DataFrame:
    """Every pair of methods over the same test sets, by the corrected resampled t-test."""
    split = result.splits[0][0]
    fraction = len(split.test) / (len(split.train) + len(split.validation))
    factor = 100 if result.data.task == "classification" else 1
    rows = []
    for i, first in enumerate(result.methods):
        for second in result.methods[i + 1 :]:
            found = corrected_t_test(first.scores, second.scores, fraction)
            rows.append(
                {
                    "first": first.method,
                    "second": second.method,
                    "difference": factor * found.difference,
                    "t": found.t,
                    "p": found.p,
                }
            )
    return pd.DataFrame(rows, columns=["first", "second", "difference", "t", "p"])


def choices(result: CVResult) -> pd.DataFrame:
    """Which settings were chosen on validation loss, and for which test sets.

    One row a method and setting, the most frequent first; test sets are numbered from 0, as in
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

    >>> print(markdown(pd.DataFrame({"a": ["x"], "b": [0.12345]})))
    | a | b |
    |---|---|
    | x | 0.1235 |
    """
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join(_shown(value) for value in row) + " |")
    return "\n".join(lines)


def write_results(result: CVResult, directory: str | Path, command: str = "") -> None:
    """Writes summary, comparisons, every fold's score and setting, every graph's prediction."""
    folder = Path(directory)
    tables = {"summary": summary(result), "comparisons": comparisons(result)}
    tables["folds"] = _folds(result)
    tables["predictions"] = _predictions(result)
    for name, table in tables.items():
        write_atomically(folder / f"{name}.csv", csv_table(table).encode())
    text = f"# {result.data.name}\n\n{markdown(tables['summary'])}\n\n"
    if len(tables["comparisons"]):
        text += f"{markdown(tables['comparisons'])}\n"
    chosen = choices(result)
    if len(chosen):
        text += f"\nSettings chosen on validation loss:\n\n{markdown(chosen)}\n"
    write_atomically(folder / "results.md", text.encode())
    known = {
        "data": result.data.name,
        "graphs": len(result.data),
        "features": list(result.data.feature_names),
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_name(result.device),
        "versions": versions(),
        "options": result.options.to_json(),
        "methods": [_known(result, method) for method in result.methods],
        "guess": result.baseline,
        "comparisons": tables["comparisons"].to_dict("records"),
    }
    # A reader can tell whether these tables are still what was written.
    known["files"] = file_digests(folder, [*(f"{name}.csv" for name in tables), "results.md"])
    write_atomically(folder / "results.json", json.dumps(with_digest(known), indent=1).encode())


def _chosen(result: CVResult, method: MethodResult) -> list[str]:
    return chosen_names(method.method, method.chosen, result.options.grid)


def _known(result: CVResult, method: MethodResult) -> dict[str, Any]:
    return {
        "method": method.method,
        "mean": method.mean,
        "std": method.std,
        "scores": method.scores,
        "chosen": method.chosen,
        "settings": _chosen(result, method),
        "models": method.models,
        "parameters": method.parameters,
        "seconds": method.seconds,
        "trained": method.strategy,
    }


def _folds(result: CVResult) -> pd.DataFrame:
    rows = []
    for method in result.methods:
        names = _chosen(result, method)
        for k, score in enumerate(method.scores):
            row = {"test_set": k, "method": method.method, "score": score}
            rows.append({**row, "setting": method.chosen[k], "chosen": names[k]})
    return pd.DataFrame(rows)


def _predictions(result: CVResult) -> pd.DataFrame:
    data = result.data
    assert data.y is not None
    names = data.class_names if data.task == "classification" else data.target_names
    rows = []
    for k, group in enumerate(result.splits):
        for place, graph in enumerate(group[0].test.tolist()):
            row: dict[str, Any] = {"test_set": k, "graph": graph}
            if data.ids:
                row["id"] = data.ids[graph]
            if data.task == "classification":
                row["truth"] = names[int(data.y[graph])]
                for method in result.methods:
                    row[method.method] = names[int(method.predictions[k][place])]
            else:
                for t, name in enumerate(names):
                    row[f"truth:{name}"] = float(data.y[graph, t])
                    for method in result.methods:
                        row[f"{method.method}:{name}"] = float(method.predictions[k][place, t])
            rows.append(row)
    return pd.DataFrame(rows)


def _shown(value: Any) -> str:
    return (
        f"{value:.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
