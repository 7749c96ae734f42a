"""A trained model in plain words and large numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from legs.report.blocks import Fact
from legs.report.folders import Run
from legs.report.words import (
    about_method,
    duration,
    listed,
    method_name,
    percent,
    share_error,
    things,
)

# Below that much of the variation, a model is as good as a guess.
NOTHING = 0.1


def is_classes(run: Run) -> bool:
    """Whether classes are predicted, also of runs that do not say so."""
    kind = run.results.get("task", {}).get("kind")
    return bool(kind == "classification" if kind else "accuracy" in run.results["scores"]["train"])


def names_of(run: Run) -> list[str]:
    """Names of classes or targets."""
    known = run.results.get("task", {}).get("names") or run.model.get("task", {}).get("names", [])
    return [str(name) for name in known]


def is_molecules(run: Run) -> bool:
    """Whether the graphs are molecules."""
    return bool(run.results["data"].get("molecules"))


def noun(run: Run) -> str:
    """What a graph is called."""
    return "molecule" if is_molecules(run) else "graph"


def title(run: Run) -> str:
    """What the model does, in a line."""
    names, results = names_of(run), run.results
    if is_classes(run):
        what = f"classes of {results['data']['name'] or 'your data'}"
    else:
        what = listed(names) if len(names) <= 3 else f"{len(names)} numbers"
    return f"Predicting {what} with {method_name(str(results['settings']['model']))}"


def summary(run: Run) -> list[str]:
    """What the run found and did, in plain words; the answer comes first."""
    test = run.results["scores"].get("test")
    if test is None:
        found = ["No graphs were held out, so how good it is on new ones is not known."]
    elif is_classes(run):
        found = _right(run, test)
    else:
        found = _off(run, test)
    return [*found, _who(run)]


def _who(run: Run) -> str:
    """What the model is, and what it learned from."""
    results, names = run.results, names_of(run)
    data, split = results["data"], results.get("split", {})
    method = str(results["settings"]["model"])
    if is_classes(run):
        what = f"tell {len(names)} classes apart ({listed(names)})"
    elif len(names) > 3:
        what = f"predict {len(names)} numbers ({listed(names, 4)})"
    else:
        what = f"predict {listed(names)}"
    source = f" from “{data['name']}”" if data["name"] else ""
    trained = things(is_molecules(run), split.get("train", data["graphs"]))
    about = about_method(method, is_molecules(run))
    return (
        f"The model, {method_name(method)}, {about + ' It' if about else 'has'} "
        f"learned to {what} from {trained}{source}"
        + (
            f"; {split['validation']:,} others told it when to stop"
            if "validation" in split
            else ""
        )
        + f". That took {duration(results['seconds'])}."
    )


def _right(run: Run, test: dict[str, Any]) -> list[str]:
    """How often classes are named right."""
    guess = run.results["scores"]["guess"]["accuracy"]
    count = run.results.get("split", {}).get("test", 0)
    unseen = things(is_molecules(run), count) if count else "graphs"
    lines = [
        f"Of {unseen} that it had not seen, the model named the right class for "
        f"{percent(test['accuracy'])}. Always answering the most frequent class would be right "
        f"for {percent(guess)}."
    ]
    error = share_error(test["accuracy"], count) if count else 0.0
    if test["accuracy"] <= guess:
        lines.append("It is no better than that guess: do not rely on its answers.")
    elif error > 0.02:
        chance = ", so it may be no better than that guess" * (test["accuracy"] - guess < 2 * error)
        lines.append(
            f"With so few test {noun(run)}s the accuracy is uncertain by about "
            f"{100 * error:.0f} points (one standard error){chance}."
        )
    return lines


def _off(run: Run, test: dict[str, Any]) -> list[str]:
    """How far numbers are off."""
    names, guess = names_of(run), run.results["scores"].get("guess", {})
    count = run.results.get("split", {}).get("test", 0)
    unseen = things(is_molecules(run), count) if count else "graphs"
    lines, r2 = [], test.get("r2")
    if len(names) == 1 and (error := test.get(f"mae:{names[0]}")) is not None:
        luck = _luck(run.predictions, names[0])
        give = f", give or take {luck:.2g}" if math.isfinite(luck) else ""
        line = (
            f"For {unseen} that it had not seen, the model's predictions of {names[0]} are off by "
            f"{error:.3g} on average{give}."
        )
        if (base := guess.get(f"mae:{names[0]}")) is not None:
            line += f" Always answering the mean would be off by {base:.3g}."
        lines.append(line)
    if r2 is not None:
        scale = "0 % is no better than always answering the mean, 100 % is perfect"
        mean = ", the mean over all numbers" * (len(names) > 1)
        of = "" if lines else f" between {unseen} that it had not seen"
        line = (
            f"It explains {percent(max(r2, 0), 0)} of the differences{of} (R² {r2:.2f}{mean}; "
            f"{scale})."
        )
        if r2 < NOTHING:
            line += " That is next to nothing: do not rely on its predictions."
        lines.append(line)
    return lines + _extremes(names, test, guess)


def _luck(table: pd.DataFrame | None, name: str) -> float:
    """The standard error of a mean error."""
    if table is None or name not in table or f"truth:{name}" not in table:
        return math.nan
    off = np.abs(table[name].to_numpy(float) - table[f"truth:{name}"].to_numpy(float))
    off = off[np.isfinite(off)]
    return float(off.std(ddof=1) / math.sqrt(len(off))) if len(off) > 1 else math.nan


def _extremes(names: list[str], test: dict[str, Any], guess: dict[str, Any]) -> list[str]:
    """Which of many numbers are predicted best and worst."""
    share = {
        name: 1 - test[f"rmse:{name}"] / guess[f"rmse:{name}"]
        for name in names
        if test.get(f"rmse:{name}") is not None and guess.get(f"rmse:{name}")
    }
    if len(share) < 3:
        return []
    best, worst = max(share, key=lambda n: share[n]), min(share, key=lambda n: share[n])
    hard = share[worst]
    told = f"{percent(hard, 0)} smaller" if hard > 0.005 else "no smaller"
    return [
        f"Best predicted is {best}, with an error {percent(share[best], 0)} smaller than a "
        f"guess's; hardest is {worst} ({told})."
    ]


def facts(run: Run) -> list[Fact]:
    """The most important numbers."""
    results, names, many = run.results, names_of(run), f"{noun(run)}s"
    test, guess = results["scores"].get("test", {}), results["scores"].get("guess", {})
    found = []
    if "accuracy" in test:
        found.append(Fact(percent(test["accuracy"]), f"of unseen {many} right"))
        found.append(
            Fact(percent(guess["accuracy"]), "by always answering the most frequent class")
        )
    elif test:
        if len(names) == 1 and f"mae:{names[0]}" in test:
            found.append(Fact(f"{test[f'mae:{names[0]}']:.3g}", f"mean error of {names[0]}"))
            if (base := guess.get(f"mae:{names[0]}")) is not None:
                found.append(Fact(f"{base:.3g}", "when always answering the mean"))
        if test.get("r2") is not None:
            found.append(Fact(percent(max(test["r2"], 0), 0), "of the differences explained (R²)"))
    split = results.get("split", {})
    found.append(
        Fact(f"{split.get('train', results['data']['graphs']):,}", f"{many} to learn from")
    )
    if split.get("test") and len(found) < 4:
        found.append(Fact(f"{split['test']:,}", f"other {many} to test on"))
    return found
