"""Scattering by dense eigendecomposition in float64 numpy: slow, short, independent of the package.

Filters are functions of the eigenvalues of
M = D^-1/2 P D^1/2 instead of sums of diffused signals, so that a mistake in one of the two does
not repeat itself in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Path = tuple[int, ...]


# Diffusion


def dense_weights(num_nodes: int, edge_index: ArrayLike, edge_weight: ArrayLike | None) -> Array:
    """W with W[target, source] summed over the listed edges; a self-loop counts once a listing."""
    source, target = np.asarray(edge_index, dtype=np.int64)
    weight = np.ones(source.size) if edge_weight is None else np.asarray(edge_weight, np.float64)
    dense = np.zeros((num_nodes, num_nodes))
    np.add.at(dense, (target, source), weight)
    return dense


def close_isolated(weights: Array) -> tuple[Array, Array]:
    """W and its column sums, where a node of zero degree is its own neighbour with degree 1."""
    weights = weights.copy()
    isolated = weights.sum(axis=0) == 0
    weights[isolated, isolated] = 1.0
    return weights, weights.sum(axis=0)


def lazy_walk(weights: Array, alpha: float) -> Array:
    """P = alpha I + (1 - alpha) W D^-1."""
    weights, degree = close_isolated(weights)
    return alpha * np.eye(len(degree)) + (1 - alpha) * weights / degree


def spectral_function(weights: Array, alpha: float, values: Array) -> Array:
    """f_j(P) for polynomials with coefficient rows ``values`` [J, m] of powers 1..m: [J, n, n]."""
    weights, degree = close_isolated(weights)
    root = np.sqrt(degree)
    symmetric = weights / root[:, None] / root[None, :]
    eigenvalue, vector = np.linalg.eigh((symmetric + symmetric.T) / 2)
    response = polynomials(values, alpha + (1 - alpha) * eigenvalue)
    return np.einsum("ik,jk,lk->jil", root[:, None] * vector, response, vector / root[:, None])


# Scales and filters


def one_hot_rows(scales: Sequence[int]) -> Array:
    """F of fixed increasing scales: row j is one at t_j."""
    rows = np.zeros((len(scales), max(scales)))
    rows[np.arange(len(scales)), np.asarray(scales) - 1] = 1.0
    return rows


def dyadic(count: int) -> list[int]:
    """1, 2, 4, ..., 2^(count - 1)."""
    return [2**k for k in range(count)]


def softmax(theta: ArrayLike) -> Array:
    """Softmax row by row."""
    theta = np.asarray(theta, np.float64)
    exponential = np.exp(theta - theta.max(axis=1, keepdims=True))
    return exponential / exponential.sum(axis=1, keepdims=True)


def learned_rows(theta: ArrayLike, ordering: str) -> Array:
    """F of the logits: cumulative sums sorted pointwise, or rows sorted by their leading one."""
    rows = softmax(theta)
    if ordering == "softmax":
        return rows[np.argsort(rows.argmax(axis=1), kind="stable")]
    if ordering != "ordered":
        raise ValueError(f"unknown ordering {ordering!r}")
    cumulative = -np.sort(-np.cumsum(rows, axis=1), axis=0)
    return np.diff(cumulative, axis=1, prepend=0.0)


def polynomials(rows: Array, at: ArrayLike) -> Array:
    """f_j(lambda) = sum_t F_jt lambda^t, t = 1..m: [J, points]."""
    powers = np.asarray(at, np.float64)[None, :] ** np.arange(1, rows.shape[1] + 1)[:, None]
    return rows @ powers


def filters(weights: Array, rows: Array, alpha: float) -> Array:
    """Psi_0, ..., Psi_(J-1), Phi_J as dense matrices: [J + 1, n, n]."""
    smooth = spectral_function(weights, alpha, rows)
    ladder = np.concatenate([np.eye(len(weights))[None], smooth])
    return np.concatenate([ladder[:-1] - ladder[1:], ladder[-1:]])


def frame_function(rows: Array, at: ArrayLike) -> Array:
    """Sum of squared responses at each lambda: sum_j (f_j - f_(j+1))^2 + f_J^2 with f_0 = 1."""
    ladder = np.vstack([np.ones(np.size(at)), polynomials(rows, at)])
    return ((ladder[:-1] - ladder[1:]) ** 2).sum(axis=0) + ladder[-1] ** 2


# Scattering


def path_list(num_scales: int, order: int, policy: str, lowpass: bool) -> list[Path]:
    """Paths by order, lexicographic within one; then the low-passed ones, Phi_J written as J."""
    chosen: list[Path] = []
    for length in range(order + 1):
        if policy == "increasing":
            chosen += list(combinations(range(num_scales), length))
        elif policy == "all":
            chosen += list(product(range(num_scales), repeat=length))
        else:
            raise ValueError(f"unknown path policy {policy!r}")
    return chosen + [(*path, num_scales) for path in chosen] if lowpass else chosen


def scatter(bank: Array, signal: Array, paths: Sequence[Path]) -> Array:
    """Signed U_p x of one channel, [n, paths]; the absolute value stands between two filters."""
    known: dict[Path, Array] = {(): signal}

    def coefficient(path: Path) -> Array:
        if path not in known:
            before = coefficient(path[:-1])
            known[path] = bank[path[-1]] @ (np.abs(before) if path[:-1] else before)
        return known[path]

    return np.stack([coefficient(path) for path in paths], axis=1)


def node_features(
    weights: Array, x: Array, rows: Array, alpha: ArrayLike, paths: Sequence[Path]
) -> Array:
    """Signed U_p x of one graph, [n, paths, channels]; ``alpha`` is one value or one a channel."""
    alphas = np.broadcast_to(np.asarray(alpha, np.float64), (x.shape[1],))
    banks = {a: filters(weights, rows, a) for a in set(alphas.tolist())}
    channels = [scatter(banks[a], x[:, c], paths) for c, a in enumerate(alphas.tolist())]
    return np.stack(channels, axis=2)


# Aggregation


def variance_floor(weights: Array, x: Array) -> Array:
    """delta = 1e-6 mean_i (x_i^2 + rho_i (A x^2)_i) + 1e-30 of every channel, rho = A 1."""
    weights = weights + np.diag((weights.sum(axis=0) == 0).astype(np.float64))
    walk = weights / weights.sum(axis=0)
    reach = walk.sum(axis=1, keepdims=True)
    return 1e-6 * np.mean(x**2 + reach * (walk @ x**2), axis=0) + 1e-30


def normalized_moments(z: Array, delta: Array) -> Array:
    """Mean, population variance, skewness, excess kurtosis over axis 0, stacked last; the last two
    are faded out where the variance nears ``delta``."""
    mean = z.mean(axis=0)
    centred = z - mean
    variance = np.mean(centred**2, axis=0)
    r = np.clip((variance / delta - 1) / 3, 0, 1)
    gate = r**3 * (10 - 15 * r + 6 * r**2)
    scaled = centred / np.sqrt(np.maximum(variance, delta))
    skewness = gate * np.mean(scaled**3, axis=0)
    kurtosis = gate * (np.mean(scaled**4, axis=0) - 3)
    return np.stack([mean, variance, skewness, kurtosis], axis=-1)


def power_moments(z: Array, order: int, kind: str) -> Array:
    """Sum or mean over axis 0 of |z|^q, q = 1..order stacked last."""
    powers = np.abs(z)[..., None] ** np.arange(1, order + 1)
    return powers.sum(axis=0) if kind == "sum" else powers.mean(axis=0)


def aggregate(
    features: Array, weights: Array, x: Array, paths: Sequence[Path], kind: str, order: int
) -> Array:
    """One graph's features, [paths, channels, moments]: path-major columns, the moment fastest."""
    z = np.where(np.array([len(path) == 0 for path in paths])[:, None], features, np.abs(features))
    if kind == "normalized":
        return normalized_moments(z, variance_floor(weights, x))[..., :order]
    if kind == "max":
        return z.max(axis=0)[..., None]
    if kind not in ("sum", "mean"):
        raise ValueError(f"unknown kind of moments {kind!r}")
    return power_moments(z, order, kind)


def graph_features(
    weights: Array,
    x: Array,
    batch: NDArray[np.int64],
    rows: Array,
    alpha: ArrayLike,
    paths: Sequence[Path],
    kind: str | None,
    order: int = 4,
) -> Array:
    """What ``Scattering`` returns, graph by graph: [graphs, columns], [nodes, columns] for None."""
    found = []
    for graph in range(int(batch.max()) + 1):
        own = batch == graph
        own_weights = weights[np.ix_(own, own)]
        features = node_features(own_weights, x[own], rows, alpha, paths)
        if kind is None:
            found.append(features.reshape(own.sum(), -1))
        else:
            found.append(
                aggregate(features, own_weights, x[own], paths, kind, order).reshape(1, -1)
            )
    return np.concatenate(found)
