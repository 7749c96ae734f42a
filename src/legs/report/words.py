"""Numbers and results in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

METHODS = {
    "legs-fixed": "LEGS-FIXED",
    "legs-fcn": "LEGS-FCN",
    "legs-rbf": "LEGS-RBF",
    "legs-attn-fcn": "LEGS-ATTN-FCN",
    "mp-legs-fcn": "MP-LEGS-FCN",
    "gcn": "GCN",
    "graphsage": "GraphSAGE",
    "gat": "GAT",
    "gin": "GIN",
    "snowball": "Snowball",
    "baseline": "Baseline",
    "gs-svm": "GS-SVM",
    "gcn-legs-fixed": "GCN-LEGS-FIXED",
    "gcn-legs-fcn": "GCN-LEGS-FCN",
}
_SCATTERING = "describes a {graph} by how signals at its {nodes} spread along its {edges}"
_MESSAGES = "is a graph neural network: the {nodes} of a {graph} pass messages to their neighbours."
# How methods work, in a sentence, after their names.
ABOUT = {
    "legs-fixed": f"{_SCATTERING}, over fixed distances (geometric scattering).",
    "legs-fcn": f"{_SCATTERING}, and learns how far to look (geometric scattering).",
    "legs-rbf": f"{_SCATTERING}, learns how far to look, and compares it with typical ones.",
    "legs-attn-fcn": f"{_SCATTERING}, and learns how far and where to look.",
    "mp-legs-fcn": f"lets neighbours pass messages, then {_SCATTERING}.",
    **dict.fromkeys(("gcn", "graphsage", "gat", "gin", "snowball"), _MESSAGES),
    "baseline": "looks at what {nodes} a {graph} has, and at none of its {edges}.",
    "gs-svm": f"{_SCATTERING}, and tells classes apart with a support vector machine.",
    **dict.fromkeys(
        ("gcn-legs-fixed", "gcn-legs-fcn"),
        "is two networks together: one passes messages between the {nodes} of a {graph}, one "
        "follows how signals spread along its {edges}.",
    ),
}
SCORES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "whitened_mse": "MSE, targets scaled to variance 1",
    "r2": "R²",
}


def method_name(method: str) -> str:
    """A method as the paper writes it."""
    return METHODS.get(method, method)


def about_method(method: str, molecules: bool = False) -> str:
    """How a method works, in plain words, to stand after its name; empty if it is not known.

    >>> about_method("baseline", molecules=True)
    'looks at what atoms a molecule has, and at none of its bonds.'
    """
    words = ("molecule", "atoms", "bonds") if molecules else ("graph", "nodes", "edges")
    return ABOUT.get(method, "").format(
        **dict(zip(("graph", "nodes", "edges"), words, strict=True))
    )


def score_name(name: str) -> str:
    """A score for people.

    >>> score_name("rmse:TPSA"), score_name("r2")
    ('RMSE of TPSA', 'R²')
    """
    kind, colon, target = name.partition(":")
    return f"{kind.upper()} of {target}" if colon else SCORES.get(name, name)


def number(value: Any, digits: int = 3) -> str:
    """A number for a table; empty where there is none.

    >>> number(0.12345), number(1234.5), number(None), number(1e-7), number(-0.0)
    ('0.123', '1,234', '', '1e-07', '0')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    size = abs(float(value))
    if size == 0:
        return "0"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}" if size >= 1e-3 else f"{value:.3g}"


def percent(value: float, digits: int = 1) -> str:
    """A share as per cent.

    >>> percent(0.8333), percent(1.0)
    ('83.3 %', '100 %')
    """
    text = f"{100 * value:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"]), listed(list("abcdefg"), 3)
    ('a, b and c', 'a, b, c and 4 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def duration(seconds: float) -> str:
    """How long something took.

    >>> duration(3.21), duration(200), duration(9000)
    ('3.2 seconds', '3.3 minutes', '2.5 hours')
    """
    if seconds < 120:
        return f"{seconds:.1f} seconds" if seconds < 10 else f"{seconds:.0f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def share_error(share: float, count: int) -> float:
    """The standard error of a share that was measured on so many graphs."""
    return math.sqrt(max(share * (1 - share), 0) / max(count, 1))


def things(molecules: bool, count: int) -> str:
    """Graphs or molecules, with their number.

    >>> things(True, 1), things(False, 1200)
    ('1 molecule', '1,200 graphs')
    """
    word = "molecule" if molecules else "graph"
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def moment(date: str) -> str:
    """A date and time as results note them, for people.

    >>> moment("2026-01-31T19:54:00+00:00"), moment("yesterday")
    ('2026-01-31 19:54 UTC', 'yesterday')
    """
    from datetime import UTC, datetime

    try:
        return f"{datetime.fromisoformat(date).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return date


def setting_words(training: dict[str, Any]) -> str:
    """How a model was trained, in a line; what was switched off is left out.

    >>> setting_words({"seed": 0, "lr": 0.001, "clip": None, "balanced": False})
    'lr 0.001'
    """
    off = (None, False)
    known = {k: v for k, v in training.items() if k != "seed" and not any(v is o for o in off)}
    return ", ".join(k if v is True else f"{k} {v}" for k, v in known.items())
