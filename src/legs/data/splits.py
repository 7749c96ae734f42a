"""Which graphs train, validate and test. The same seed gives the same split, on every machine.

One split by fractions here, also of whole groups; parts for cross-validation and the paper's
rotation in :mod:`legs.data.folds`; molecules by scaffold in :mod:`legs.data.scaffolds`; splits on
disk in :mod:`legs.data.split_files`. All can be imported from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legs.data.errors import DataError
from legs.data.folds import (
    USUAL_FRACTIONS,
    Fractions,
    Split,
    group_folds,
    group_numbers,
    part_sizes,
    random_folds,
    rotations,
    stratified_folds,
)
from legs.data.scaffolds import scaffold_split
from legs.data.split_files import check_splits, load_splits, save_splits

__all__ = [
    "Split",
    "check_splits",
    "group_folds",
    "leave_groups_out",
    "load_splits",
    "part_sizes",
    "random_folds",
    "random_split",
    "rotations",
    "save_splits",
    "scaffold_split",
    "stratified_folds",
]


def random_split(n: int, fractions: Fractions = USUAL_FRACTIONS, seed: int = 0) -> Split:
    """Training, validation and test graphs at random.

    Args:
        n: number of graphs.
        fractions: of training, validation and test (default 0.8, 0.1, 0.1).
        seed: default 0.

    >>> [part.size for part in random_split(25)]
    [19, 3, 3]
    """
    sizes = part_sizes(n, fractions)
    order = np.random.default_rng(seed).permutation(n)
    return Split(*(np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1])))


def leave_groups_out(
    groups: Sequence[Any], fractions: Fractions = USUAL_FRACTIONS, seed: int = 0
) -> Split:
    """A random split that keeps groups whole: none is in two parts.

    Groups come in random order, each into the part in which it leaves the largest share of room.
    No part is left empty.

    Args:
        groups: the group of every graph, ``[graphs]``; any labels; at least three.
        fractions: of training, validation and test graphs, met as well as the groups allow.
        seed: default 0.

    >>> split = leave_groups_out(["a", "b", "a", "c"])
    >>> sorted(split.train.tolist() + split.validation.tolist() + split.test.tolist())
    [0, 1, 2, 3]
    """
    number, sizes = group_numbers(groups)
    if len(sizes) < 3:
        raise DataError(f"{len(sizes)} groups; a split needs three: train, validation, test")
    wanted = np.maximum(part_sizes(len(number), fractions), 1)
    filled = np.zeros(3)
    part = np.empty(len(sizes), dtype=np.int64)
    for done, group in enumerate(np.random.default_rng(seed).permutation(len(sizes))):
        room = (wanted - filled - sizes[group]) / wanted
        empty = filled == 0
        if len(sizes) - done == empty.sum():
            room[~empty] = -np.inf
        part[group] = np.argmax(room)
        filled[part[group]] += sizes[group]
    return Split(*(np.flatnonzero(part[number] == i) for i in range(3)))
