"""The paper's number for a data set and a method."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from legs.experiments.paper_tables import Printed


def paper_number(data: str, method: str) -> Printed | None:
    """What the paper prints, in its units: per cent right, or mean squared error.

    Affinities are left out: the paper does not say how it scaled them.

    Args:
        data: name of a data set.
        method: as ``--model`` takes it.

    >>> paper_number("MUTAG", "gcn")
    Printed(mean=79.3, std=9.66)
    >>> paper_number("zinc-bbab", "legs-fcn")
    Printed(mean=0.591, std=0.026)
    >>> paper_number("my own file", "gcn") is None
    True
    """
    from legs.experiments.paper_tables import printed

    if data.startswith("zinc-"):
        return printed("zinc", method, data.removeprefix("zinc-"))
    if data == "qm9":
        return printed("qm9", method, "Test MSE")
    return printed("classification", data, method) or printed("ensemble", data, method)
