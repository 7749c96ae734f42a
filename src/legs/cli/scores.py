"""Scores as tables for people."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

_WORDS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "whitened_mse": "MSE, targets scaled to variance 1",
    "r2": "R²",
}
_HEADS = {"guess": "guess (test)"}


def score_table(
    scores: Mapping[str, Mapping[str, float]], graphs: Mapping[str, int] | None = None
) -> Table:
    """One row a score, one column a part of the data.

    Args:
        scores: by part and name.
        graphs: number of graphs of each part, for the heads.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("score", no_wrap=True)
    for part in scores:
        count = (graphs or {}).get(part)
        head = _HEADS.get(part, part)
        table.add_column(head if count is None else f"{head}\n{count:,}", justify="right")
    for name in next(iter(scores.values())):
        table.add_row(
            escape(_words(name)), *(_number(found.get(name)) for found in scores.values())
        )
    return table


def _words(name: str) -> str:
    kind, colon, target = name.partition(":")
    return f"{kind.upper()} {target}" if colon else _WORDS.get(name, name)


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e3 or value == 0 else f"{value:.3g}"
