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
