"""Names, numbers and warnings as readers see them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_SCATTERING = "describes a {graph} by how signals on its {nodes} spread along its {edges}"
_MESSAGES = "is a graph neural network: the {nodes} of a {graph} send messages to their neighbors."
_TWO = (
    "combines two networks: one sends messages between the {nodes} of a {graph}, the other "
    "follows how signals spread along its {edges}."
)
# How methods work, to follow their names.
ABOUT = {
    "legs-fixed": f"{_SCATTERING}, at fixed distances (geometric scattering).",
    "legs-fcn": f"{_SCATTERING}, at learned distances (geometric scattering).",
    "legs-rbf": f"{_SCATTERING}, at learned distances, and compares it with learned prototypes.",
    "legs-attn-fcn": f"{_SCATTERING}, at learned distances and with attention to {{nodes}}.",
    "legs-deep": f"{_SCATTERING}, at several distances, layer by layer.",
    "mp-legs-fcn": f"lets neighbors exchange messages, then {_SCATTERING}.",
    **dict.fromkeys(("gcn", "graphsage", "gat", "gin", "snowball"), _MESSAGES),
    **dict.fromkeys(("gcn-deep", "sage-deep", "gat-deep", "gin-deep"), _MESSAGES),
    "baseline": "uses the features of the {nodes} of a {graph}, and none of its {edges}.",
    "gs-svm": f"{_SCATTERING}, and classifies it with a support vector machine.",
    "auto": "blends networks, a Gaussian process and trees, weighed on {graph}s left out.",
    "forest": "averages randomized trees on features of the whole {graph}.",
    "boosting": "adds up trees on features of the whole {graph}, each correcting those before.",
    "kernel": "compares a {graph} with those of the training data (a Gaussian process).",
    **dict.fromkeys(("gcn-legs-fixed", "gcn-legs-fcn"), _TWO),
}
NAMES = {"graphsage": "GraphSAGE", "snowball": "Snowball", "baseline": "Baseline"}
NAMES |= {name: name for name in ("auto", "forest", "boosting", "kernel")}
SCORES = {
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "whitened_mse": "MSE of standardized targets",
    "r2": "R²",
    "average_precision": "average precision",
    "roc_auc": "ROC-AUC",
    "mcc": "Matthews correlation",
    "spearman": "Spearman correlation",
    "recall": "recall",
}
# Scores on fewer test graphs mean little.
FEW = 10


def score_name(name: str) -> str:
    """A score as people call it.

    >>> score_name("rmse:logP"), score_name("recall:active")
    ('RMSE of logP', 'recall of active')
    """
    kind, colon, target = name.partition(":")
    return f"{SCORES.get(kind, kind.upper())} of {target}" if colon else SCORES.get(name, name)


def baseline_name(classes: bool) -> str:
    """What every method is compared with."""
    return f"always predicting the {'most frequent class' if classes else 'mean'}"


def loses(test: Mapping[str, Any], baseline: Mapping[str, Any]) -> bool:
    """Whether the test scores of a model are no better than the baseline's; not if unknown."""
    for name, sign in (("accuracy", 1), ("average_precision", 1), ("whitened_mse", -1)):
        ours, theirs = test.get(name), baseline.get(name)
        if ours is not None and theirs is not None:
            return bool(sign * ours <= sign * theirs)
    return False


def few_words(tested: float, what: str = "the test set has") -> list[str]:
    """A warning about a small test set, as a list of at most one sentence."""
    line = f"Scores on fewer than {FEW} graphs mean little: {what} {tested:.0f}."
    return [line] if 0 < tested < FEW else []


def caveats(test: Mapping[str, Any], baseline: Mapping[str, Any], tested: int) -> list[str]:
    """What a reader must know before the scores of a model on so many test graphs (0: unknown)."""
    lines = few_words(tested)
    if loses(test, baseline):
        name = baseline_name("accuracy" in test)
        lines.insert(0, f"The model is no better than {name}: do not rely on its predictions.")
    return lines


def method_name(method: str) -> str:
    """A method as the paper writes it."""
    return NAMES.get(method, method.upper() if method in ABOUT else method)


def about_method(method: str, molecules: bool = False) -> str:
    """How a method works, to follow its name; empty if it is not known."""
    graph, nodes, edges = (
        ("molecule", "atoms", "bonds") if molecules else ("graph", "nodes", "edges")
    )
    return ABOUT.get(method, "").format(graph=graph, nodes=nodes, edges=edges)


def number(value: Any) -> str:
    """A number for a table; empty for ``None`` and NaN."""
    if value is None or math.isnan(value):
        return ""
    size = abs(float(value))
    if size >= 1000:
        return f"{value:,.0f}"
    return "0" if size == 0 else f"{value:.3f}" if size >= 1e-3 else f"{value:.3g}"


def candidate_rows(candidates: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Out-of-fold scores, weights and seconds of the candidates of a blend, under a heading."""
    names = [*candidates[-1]["scores"]][:4] if candidates else []
    rows = [["out of fold", *map(score_name, names), "weight", "seconds"]]
    for each in candidates:
        scores = [number(each["scores"].get(name)) for name in names]
        weight = f"{each['weight']:.2f}" if each["scores"] else "no time"
        rows.append([method_name(each["name"]), *scores, weight, f"{each['seconds']:.0f}"])
    return rows


def percent(value: float, digits: int = 1) -> str:
    """A share in percent, without a zero after the point."""
    text = f"{round(100 * value, digits) + 0.0:.{digits}f}"  # 0, not -0
    return f"{text.removesuffix('.0')}%"


def joined(names: Sequence[str], most: int = 5) -> str:
    """Names in a sentence."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def duration(seconds: float) -> str:
    """A time span."""
    if seconds < 120:
        return f"{seconds:.1f} seconds" if seconds < 10 else f"{seconds:.0f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def graph_count(molecules: bool, count: int, kind: str = "") -> str:
    """A number of graphs or molecules."""
    word = "molecule" if molecules else "graph"
    return f"{count:,} {kind}{word}{'' if count == 1 else 's'}"


def moment(date: str) -> str:
    """An ISO date for readers."""
    try:
        return f"{datetime.fromisoformat(date).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return date


def setting_words(training: dict[str, Any]) -> str:
    """Training options in a line; options that are off are left out."""
    on = {k: v for k, v in training.items() if k != "seed" and v is not None and v is not False}
    return ", ".join(k if v is True else f"{k} {v}" for k, v in on.items())
