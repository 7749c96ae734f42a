"""Results that are not finite name the graph they come from."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.validate import graph_name


def check_finite(
    data: GraphDataset, found: Tensor, graphs: npt.NDArray[Any] | None = None
) -> Tensor:
    """Raises :class:`DataError` for the first graph whose row of ``found`` is not finite.

    Args:
        data: the graphs.
        found: features or predictions, ``[graphs, columns]``.
        graphs: the graph of each row (default: all graphs).
    """
    for row in not_finite(found):
        graph = row if graphs is None else int(graphs[row])
        raise DataError(f"{graph_name(data, graph)}: {overflow_reason(data, graph)}")
    return found


def not_finite(found: Tensor) -> list[int]:
    """Rows of ``found`` that are not finite."""
    rows: list[int] = (~found.isfinite().all(1)).nonzero().flatten().tolist()
    return rows


def overflow_reason(data: GraphDataset, graph: int) -> str:
    """What to tell people about a graph whose result is not finite."""
    one = data[graph : graph + 1]
    column = int(one.x.abs().amax(0).argmax())
    name = repr(one.feature_names[column]) if one.feature_names else str(column)
    weights = one.edge_weight
    heaviest = "" if weights is None or not len(weights) else f"; heaviest edge {weights.max():g}"
    return (
        "the result is not finite: numbers overflow float32 "
        f"(largest node feature: {name}, up to {float(one.x[:, column].abs().max()):g}{heaviest}); "
        "rescale them as in training"
    )
