"""A cross-validation in plain words and large numbers."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from legs.report.blocks import Fact
from legs.report.words import duration, listed, method_name, number

if TYPE_CHECKING:
    from legs.report.cv_page import CrossValidation

# Options of legs cv that legs train has as well.
SHARED = {"--target", "--task", "--features", "--limit", "--lr", "--epochs", "--batch-size"}
SHARED |= {"--patience", "--seed"}
CHANCE = 0.05


def unit(run: CrossValidation) -> str:
    """What scores are."""
    return "accuracy, %" if run.classes else "MSE, targets scaled to variance 1"


def score(run: CrossValidation, mean: float, std: float) -> str:
    """A mean and a deviation."""
    digits = 2 if run.classes else 4
    return f"{run.factor * mean:.{digits}f} ± {run.factor * std:.{digits}f}"


def protocol(run: CrossValidation) -> str:
    """How methods were tested."""
    options = run.results["options"]
    sets = len(run.results["guess"])
    if not run.classes:
        return f"{sets} random splits (80 % train, 10 % validate, 10 % test)"
    rotations = options.get("rotations")
    most = options["folds"] - options["test_folds"]
    models = most if rotations is None else min(rotations, most)
    voted = f"{models} models vote on each" if models > 1 else "one model answers for each"
    return f"{sets} test sets; {voted}"


def summary(run: CrossValidation) -> list[str]:
    """What was found, in plain words; the answer comes first."""
    results, best = run.results, run.methods[0]
    guess = np.array(results["guess"])
    named, many = method_name(str(best["method"])), len(run.methods)
    ours = score(run, best["mean"], best["std"])
    base = score(run, float(guess.mean()), float(guess.std()))
    if run.classes:
        lines = [
            f"{named}{' did best: it' * (many > 1)} named the right class for {ours} % of the "
            f"{run.noun}s it had not seen (mean and deviation over test sets). Always answering "
            f"the most frequent class gives {base} %."
        ]
    else:
        lines = [
            f"{named} {'has the smallest' if many > 1 else 'has a'} mean squared error on "
            f"{run.noun}s it had not seen: {ours}, where the targets vary by 1. Always answering "
            f"the mean gives {base}."
        ]
    lines += _lead_words(run, best)
    source = f"“{results['data']}”" if results["data"] else "a data set"
    tried = f"{many} methods were" if many > 1 else "One method was"
    lines.append(
        f"{tried} tried on {results['graphs']:,} {run.noun}s of {source}: "
        f"{protocol(run)}. Models are always tested on {run.noun}s that had no part in training "
        "them."
    )
    return lines


def _lead_words(run: CrossValidation, best: dict[str, Any]) -> list[str]:
    """Whether the best method is reliably better than the others."""
    name = best["method"]
    pairs = [r for r in run.results.get("comparisons", ()) if name in (r["first"], r["second"])]
    known = {r["second"] if r["first"] == name else r["first"]: r["p"] for r in pairs}
    if not known:
        return []
    sure = [method_name(str(m)) for m, p in known.items() if p is not None and p < CHANCE]
    rest = [method_name(str(m)) for m in known if method_name(str(m)) not in sure]
    test = "(corrected resampled t-test)"
    if not sure:
        return [f"Its lead over {listed(rest)} may be chance {test}."]
    line = f"Its lead over {listed(sure)} is hardly chance (p below {CHANCE}, {test[1:]}"
    return [f"{line}; over {listed(rest)} it may be." if rest else f"{line}."]


def facts(run: CrossValidation) -> list[Fact]:
    """The most important numbers."""
    results, best = run.results, run.methods[0]
    digits = 1 if run.classes else 3
    per_cent = " %" if run.classes else ""
    what = f"of unseen {run.noun}s right: " if run.classes else "mean squared error of "
    ours = f"{run.factor * best['mean']:.{digits}f}{per_cent}"
    base = f"{run.factor * np.mean(results['guess']):.{digits}f}{per_cent}"
    return [
        Fact(ours, what + method_name(str(best["method"]))),
        Fact(base, f"by always answering the {'most frequent class' if run.classes else 'mean'}"),
        Fact(f"{sum(m['models'] for m in run.methods):,}", "models trained"),
        Fact(duration(sum(m["seconds"] for m in run.methods)), "of training"),
    ]


def pair_rows(run: CrossValidation) -> list[list[str]]:
    """Every pair of methods, as rows of a table."""
    return [
        [
            method_name(str(row["first"])),
            method_name(str(row["second"])),
            f"{row['difference']:+.{2 if run.classes else 4}f}",
            number(row["p"]),
        ]
        for row in run.results.get("comparisons", ())
    ]


def train_command(
    command: str, method: str, folder: str, setting: dict[str, Any] | None = None
) -> str:
    """The command that trains one model like those of a cross-validation; empty if unknown.

    Args:
        command: of the cross-validation.
        method: to train.
        folder: where to keep the model.
        setting: of the tuning grid (default: none).

    >>> train_command("legs cv a.csv --folds 5 --target y -o cv", "gcn", "cv/m", {"lr": 0.01})
    'legs train a.csv --target y --model gcn --lr 0.01 -o cv/m'
    """
    words = shlex.split(command)
    if words[:2] != ["legs", "cv"]:
        return ""
    data, kept, rest = "", [], iter(words[2:])
    tuned = dict(setting or {})
    for word in rest:
        name, equals, value = word.partition("=")
        if not name.startswith("-"):
            data = data or word
            continue
        value = value if equals else next(rest, "")  # all of them have one
        if name in SHARED and name.removeprefix("--") not in tuned:
            kept += [name, value]
    kept += ["--model", method]
    for name, value in tuned.items():
        kept += ["--lr", str(value)] if name == "lr" else ["--set", f"{name}={_json(value)}"]
    return shlex.join(["legs", "train", data, *kept, "-o", folder]) if data else ""


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def usual_setting(run: CrossValidation, method: str) -> dict[str, Any]:
    """The setting of the grid that most test sets of a method chose."""
    known = next(m for m in run.results["methods"] if m["method"] == method)
    grid = run.results["options"].get("grid") or [{}]
    if method == "gs-svm" or not known.get("chosen"):
        return {}
    return dict(grid[Counter(known["chosen"]).most_common(1)[0][0]])
