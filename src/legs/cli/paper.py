"""The paper's score for a data set and a method."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Printed(NamedTuple):
    """A score of the paper; ``std`` is ``None`` where it prints none."""

    mean: float
    std: float | None


@cache
def _scores() -> dict[tuple[str, str], Printed]:
    text = (files("legs.data") / "paper_scores.csv").read_text(encoding="utf-8")
    scores: dict[tuple[str, str], Printed] = {}
    for row in csv.DictReader(text.splitlines()):
        data = row.pop("data")
        for method, text in row.items():
            mean, _, std = text.partition(" ± ")
            if mean:
                scores[data, method] = Printed(float(mean), float(std) if std else None)
    return scores


def paper_number(data: str, method: str) -> Printed | None:
    """The printed score, in the paper's units: percent correct, or mean squared error.

    Affinities are left out: the paper does not say how it scaled them.

    >>> paper_number("MUTAG", "gcn")
    Printed(mean=79.3, std=9.66)
    >>> paper_number("my own file", "gcn") is None
    True
    """
    return _scores().get((data, method))
