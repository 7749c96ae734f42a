"""GDT_TS: how much of a structure a model gets right."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from legs.data.errors import DataError

CUTOFFS = (1.0, 2.0, 4.0, 8.0)  # ångström
# What is superposed next lies within one of these of its place. They need not be the cut-offs:
# with these twelve, scores of protein decoys are half a point higher than with the four alone.
_RADII = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 9.0, 10.0)
_FRAGMENTS = (4, 8, 16, 32, 64)
_MOST_SEEDS = 256
_ROUNDS = 20
_MOST_AT_ONCE = 2**18  # residues times motions: arrays that fit a processor's cache
_Array: TypeAlias = np.ndarray[Any, Any]


def gdt_ts(model: _Array, native: _Array, *, length: int | None = None) -> float:
    """Global distance test, total score: 0 to 100, a model equal to the native structure has 100.

    For each of the cut-offs 1, 2, 4 and 8 Å, the largest share of residues that one rigid motion
    of the model brings to within it of their place; the mean of the four, in percent.

    The largest share is searched for, as by LGA (Zemla 2003): superpositions of many fragments are
    refined by superposing what is within the cut-off, again and again. A search can only miss
    better motions, so the score is a lower bound, as LGA's own is; LGA's differs by its search.

    Args:
        model: coordinates of the residues that the model and the native structure share, in Å,
            ``[residues, 3]``.
        native: coordinates of the same residues, ``[residues, 3]``.
        length: number of residues of the native structure (default: all are shared). Residues the
            model lacks count as misplaced.

    >>> chain = np.cumsum(np.ones((20, 3)), axis=0)
    >>> gdt_ts(chain + 5, chain)
    100.0
    """
    model, native = np.asarray(model, dtype=np.float64), np.asarray(native, dtype=np.float64)
    if model.shape != native.shape or model.ndim != 2 or model.shape[1] != 3:
        raise DataError(
            f"GDT_TS compares coordinates of the same residues: {model.shape}, {native.shape}"
        )
    if not (np.isfinite(model).all() and np.isfinite(native).all()):
        raise DataError("coordinates are NaN or infinite")
    shared = len(model)
    length = shared if length is None else length
    if shared > length:
        raise DataError(f"{shared} residues shared with a native structure of {length}")
    return 100 * float(_best_counts(model, native).mean()) / length if shared else 0.0


def superpose(model: _Array, native: _Array, chosen: _Array) -> tuple[_Array, _Array]:
    """Rigid motions that bring chosen residues nearest to their places (Kabsch 1976).

    Args:
        model: ``[residues, 3]``.
        native: ``[residues, 3]``.
        chosen: a motion a row, ``[motions, residues]``, true for the residues it looks at.

    Returns:
        Rotations ``[motions, 3, 3]`` and shifts ``[motions, 3]``: ``model @ rotation + shift``.
    """
    weight = chosen / chosen.sum(axis=1, keepdims=True)
    from_, to = weight @ model, weight @ native
    products = (model[:, :, None] * native[:, None, :]).reshape(len(model), 9)
    covariance = (weight @ products).reshape(-1, 3, 3) - from_[:, :, None] * to[:, None, :]
    left, _, right = np.linalg.svd(covariance)
    # A reflection fits better at times, but no molecule can be moved by one.
    left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]
    rotation = left @ right
    return rotation, to - np.einsum("mi,mij->mj", from_, rotation)


def _best_counts(model: _Array, native: _Array) -> _Array:
    """The largest number of residues within each cut-off that was found, ``[cut-offs]``."""
    model, native = model - model.mean(axis=0), native - native.mean(axis=0)
    best = np.zeros(len(CUTOFFS), dtype=np.int64)
    masks, radius = _seeds(len(model)), None
    seen: set[tuple[float, bytes]] = set()
    for _ in range(_ROUNDS):
        distance = _distances(model, native, masks)
        for k, cutoff in enumerate(CUTOFFS):
            best[k] = max(best[k], (distance <= cutoff).sum(axis=1).max())
        if radius is None:  # from here on every seed is refined once for each radius
            radius = np.repeat(_RADII, len(distance))
            distance = np.tile(distance, (len(_RADII), 1))
        masks, radius = _unseen(distance <= radius[:, None], radius, seen)
        if not len(masks):
            break
    return best


def _distances(model: _Array, native: _Array, masks: _Array) -> _Array:
    """How far each superposition leaves each residue from its place, ``[motions, residues]``."""
    distance = np.empty(masks.shape)
    rows = max(1, _MOST_AT_ONCE // len(model))
    for start in range(0, len(masks), rows):
        rotation, shift = superpose(model, native, masks[start : start + rows])
        moved = model @ rotation + shift[:, None, :]
        distance[start : start + rows] = np.linalg.norm(moved - native, axis=2)
    return distance


def _unseen(masks: _Array, radius: _Array, seen: set[tuple[float, bytes]]) -> tuple[_Array, _Array]:
    """Selections not superposed before that hold three residues, which fix a motion."""
    fresh = []
    packed = np.packbits(masks, axis=1)
    for row in np.flatnonzero(masks.sum(axis=1) >= 3).tolist():
        key = (float(radius[row]), packed[row].tobytes())
        if key not in seen:
            seen.add(key)
            fresh.append(row)
    return masks[fresh], radius[fresh]


def _seeds(length: int) -> _Array:
    """Fragments of several lengths all along the chain, and all of it, ``[seeds, residues]``."""
    place = np.arange(length)
    found = [np.ones((1, length), dtype=bool)]
    for size in _FRAGMENTS:
        if size < length:
            step = max(1, size // 4, (length * len(_FRAGMENTS)) // _MOST_SEEDS)
            start = np.arange(0, length - size + 1, step)[:, None]
            found.append((place >= start) & (place < start + size))
    return np.concatenate(found)
