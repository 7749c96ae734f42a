"""Which of the graphs given to ``fit`` decide when training stops."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from legs.data.errors import DataError
from legs.data.splits import Indices, Split, balanced_group_folds


def hold_out(
    graphs: int,
    fraction: float,
    seed: int,
    classes: Tensor | None = None,
    groups: Indices | None = None,
) -> Split:
    """Some graphs validate, the others train; no graph tests.

    Args:
        graphs: number of graphs.
        fraction: of validation graphs, above 0 and at most ½; at least one graph.
        seed: of the choice.
        classes: every class gets its share to within one graph, and keeps one graph in training.
        groups: those that are in one part, as :func:`legs.data.grouping.find_groups` returns.

    >>> import torch
    >>> hold_out(10, 0.2, 0, torch.tensor([0] * 5 + [1] * 5)).validation // 5
    array([0, 1])
    """
    if not 0 < fraction <= 0.5:
        raise ValueError(
            f"validation_fraction must be above 0 and at most 0.5 (that share of the graphs "
            f"decides when to stop); got {fraction}"
        )
    nothing = np.empty(0, dtype=np.int64)
    if groups is not None and groups.max() > 0:
        train, validation = balanced_group_folds(groups, [1 - fraction, fraction], classes, seed)
        return Split(train, validation, nothing)
    order = np.random.default_rng(seed).permutation(graphs)
    if classes is not None:
        numbers = classes.numpy()
        order = order[np.argsort(numbers[order], kind="stable")]
        order = order[np.bincount(numbers)[numbers[order]] > 1]
    if len(order) < 2:
        raise DataError("too few graphs: one must validate and others of its kind train")
    chosen = min(int(np.ceil(fraction * graphs - 1e-9)), len(order) // 2)
    # Evenly spaced over the classes, which lie side by side: neighbours are two apart at least.
    places = (np.arange(chosen) + 0.5) * len(order) / chosen
    validation = np.sort(order[places.astype(np.int64)])
    train = np.setdiff1d(np.arange(graphs), validation)
    return Split(train, validation, nothing)
