"""Parts of a data set, and the rotation of test and validation sets over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from legs.data.errors import DataError

Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Fractions: TypeAlias = tuple[float, float, float]

PARTS = ("train", "validation", "test")
USUAL_FRACTIONS: Fractions = (0.8, 0.1, 0.1)


class Split(NamedTuple):
    """Numbers of the graphs for training, validation and testing; each sorted, int64."""

    train: Indices
    validation: Indices
    test: Indices


def part_sizes(n: int, fractions: Fractions = USUAL_FRACTIONS) -> Indices:
    """How many of ``n`` graphs are training, validation and test; rounded in favour of the latter.

    >>> part_sizes(188).tolist()
    [150, 19, 19]
    """
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.shape != (3,) or not (shares > 0).all() or not np.isclose(shares.sum(), 1):
        raise DataError(f"fractions are three positive numbers that add up to 1; got {fractions}")
    validation, test = (int(np.ceil(share * n - 1e-9)) for share in shares[1:])
    sizes = np.array([n - validation - test, validation, test], dtype=np.int64)
    if sizes.min() < 1:
        raise DataError(f"{n} graphs are too few to split by {tuple(fractions)}")
    return sizes


def stratified_folds(y: ArrayLike, k: int = 10, seed: int = 0) -> list[Indices]:
    """``k`` parts, in each of which every class has its share, to within one graph.

    Args:
        y: class of every graph, ``[graphs]``; any labels.
        k: number of parts (default 10); their sizes differ by one at most.
        seed: of the random order within each class (default 0).

    >>> folds = stratified_folds([0] * 20 + [1] * 10, k=5)
    >>> [fold.size for fold in folds], [int((fold >= 20).sum()) for fold in folds]
    ([6, 6, 6, 6, 6], [2, 2, 2, 2, 2])
    """
    classes = np.asarray(y)
    if classes.ndim != 1:
        raise DataError(f"one class a graph is needed to stratify; got shape {classes.shape}")
    if classes.dtype.kind == "f" and not (classes == np.round(classes)).all():
        raise DataError("these targets are measurements, not classes; use random_folds instead")
    _check_parts(k, len(classes), "graphs")
    _, number = np.unique(classes, return_inverse=True)
    # Class after class, at random within each, dealt out like cards.
    order = np.lexsort((np.random.default_rng(seed).random(len(number)), number))
    return [np.sort(order[i::k]) for i in range(k)]


def random_folds(n: int, k: int = 10, seed: int = 0) -> list[Indices]:
    """``k`` parts at random, of sizes that differ by one at most.

    >>> [fold.size for fold in random_folds(11, k=3)]
    [4, 4, 3]
    """
    _check_parts(k, n, "graphs")
    order = np.random.default_rng(seed).permutation(n)
    return [np.sort(order[i::k]) for i in range(k)]


def group_folds(groups: Sequence[Any], k: int = 10, seed: int = 0) -> list[Indices]:
    """``k`` parts of about the same size that keep groups whole.

    Args:
        groups: the group of every graph, ``[graphs]``; any labels.
        k: number of parts (default 10); as many as there are groups: one group a part.
        seed: of the order among groups of the same size (default 0).

    >>> [fold.tolist() for fold in group_folds(["a", "b", "a", "c"], k=2)]
    [[0, 2], [1, 3]]
    """
    number, sizes = group_numbers(groups)
    _check_parts(k, len(sizes), "groups")
    fold = np.empty(len(sizes), dtype=np.int64)
    filled = np.zeros(k, dtype=np.int64)
    for group in _falling(sizes, np.random.default_rng(seed)):
        fold[group] = np.argmin(filled)
        filled[fold[group]] += sizes[group]
    return [np.flatnonzero(fold[number] == i) for i in range(k)]


def rotations(
    folds: Sequence[Indices], *, test_folds: int = 1, rotations: int | None = None
) -> list[list[Split]]:
    """The paper's protocol: every part is tested, and validation rotates over the others.

    The test set is ``test_folds`` consecutive parts, at each of the ``k`` starting positions. For
    each, one model a remaining part: that part validates, the rest trains. The models of one test
    set vote.

    Args:
        folds: the ``k`` parts.
        test_folds: parts in a test set (default 1; the paper's reduced training data: 1, 2, 5, 7).
        rotations: models a test set (default: one for each remaining part); validation starts
            with the part after the test set.

    Returns:
        For every test set the splits of its models.

    >>> tests = rotations(random_folds(20, k=10))
    >>> len(tests), len(tests[0])
    (10, 9)
    """
    k = len(folds)
    left = k - test_folds
    if test_folds < 1 or left < 2:
        raise DataError(
            f"{test_folds} of {k} parts to test: at least one must be left to validate and one to "
            "train"
        )
    models = left if rotations is None else rotations
    if not 1 <= models <= left:
        raise DataError(f"there can be 1 to {left} rotations, not {models}")

    def join(chosen: Sequence[int]) -> Indices:
        return np.sort(np.concatenate([folds[i] for i in chosen]))

    tests = []
    for start in range(k):
        around = [(start + i) % k for i in range(k)]
        test, others = around[:test_folds], around[test_folds:]
        tests.append(
            [
                Split(join([i for i in others if i != held]), join([held]), join(test))
                for held in others[:models]
            ]
        )
    return tests


def group_numbers(groups: Sequence[Any]) -> tuple[Indices, Indices]:
    """Number of every graph's group, by first appearance, and the sizes of the groups."""
    number: dict[Any, int] = {}
    found = np.array([number.setdefault(g, len(number)) for g in groups], dtype=np.int64)
    return found, np.bincount(found)


def _falling(sizes: Indices, rng: np.random.Generator) -> Indices:
    """Groups by falling size, those of the same size at random."""
    return np.lexsort((rng.random(len(sizes)), -sizes))


def _check_parts(k: int, available: int, what: str) -> None:
    if not 2 <= k <= available:
        raise DataError(f"{available} {what} cannot be split into {k} parts")
