"""The gradient formulas, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from legs import Scattering
from tests import reference as ref
from tests.properties.banks import bank_of, with_theta
from tests.strategies import Graph, from_pairs, star_pairs

STEPS, ALPHA = 6, 0.7
# leading ones at 1, 3, 5: already in order, so that no sorting takes place
SORTED_THETA = torch.tensor(
    [
        [1.5, 0.3, -0.2, 0.1, -1.0, 0.4],
        [-0.5, 0.6, 1.7, 0.2, 0.0, -0.3],
        [0.2, -1.1, 0.5, 0.4, 1.2, 0.9],
    ],
    dtype=torch.float64,
)


def gradient_graph() -> Graph:
    """A loop, a triangle and a tail, with weights of different size."""
    pairs = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 4)]
    return from_pairs(5, pairs, [1.0, 0.4, 2.0, 1.5, 0.7, 0.9])


def dense(graph: Graph) -> Tensor:
    return torch.from_numpy(ref.dense_weights(graph.num_nodes, *graph[1:]))


def walk_of(weights: Tensor) -> Tensor:
    eye = torch.eye(len(weights), dtype=weights.dtype)
    return ALPHA * eye + (1 - ALPHA) * weights / weights.sum(dim=0)


def wavelets_of(theta: Tensor, walk: Tensor) -> Tensor:
    """Psi_0, ..., Psi_(J-1) from plain softmax rows, [J, n, n]."""
    powers = torch.stack([torch.matrix_power(walk, t) for t in range(1, STEPS + 1)])
    smooth = torch.einsum("jt,tab->jab", theta.softmax(dim=1), powers)
    ladder = torch.cat([torch.eye(len(walk), dtype=walk.dtype)[None], smooth])
    return ladder[:-1] - ladder[1:]


def formula_in_theta(theta: Tensor, walk: Tensor) -> Tensor:
    """d Psi_j / d Theta_ks as [J, n, n, rows, steps]; row j + 1 of the paper is row j here."""
    rows = theta.softmax(dim=1)
    powers = torch.stack([torch.matrix_power(walk, t) for t in range(1, STEPS + 1)])
    found = torch.zeros(len(rows), *walk.shape, *rows.shape, dtype=walk.dtype)
    for row in range(len(rows)):
        mean = torch.einsum("t,tab->ab", rows[row], powers)
        for step in range(STEPS):
            change = rows[row, step] * (powers[step] - mean)
            if row + 1 < len(rows):
                found[row + 1, :, :, row, step] = change  # the wavelet that begins with this row
            found[row, :, :, row, step] = -change  # and the one that ends with it
    return found


def formula_walk_in_weight(weights: Tensor, a: int, b: int) -> Tensor:
    """Item 4: dP / dW_ab = (1 - alpha)(E^ab D^-1 - W D^-1 E^bb D^-1)."""
    inverse = torch.diag(1 / weights.sum(dim=0))
    unit_ab, unit_bb = torch.zeros_like(weights), torch.zeros_like(weights)
    unit_ab[a, b], unit_bb[b, b] = 1, 1
    return (1 - ALPHA) * (unit_ab @ inverse - weights @ inverse @ unit_bb @ inverse)


def formula_power_in_weight(weights: Tensor, t: int, a: int, b: int) -> Tensor:
    """Item 4: dP^t / dW_ab = sum_k P^(k-1) (dP / dW_ab) P^(t-k), k = 1..t."""
    walk, change = walk_of(weights), formula_walk_in_weight(weights, a, b)
    power = torch.matrix_power
    return sum(
        (power(walk, k - 1) @ change @ power(walk, t - k) for k in range(1, t + 1)),
        torch.zeros_like(weights),
    )


def gradient_module(**options: object) -> Scattering:
    return with_theta(SORTED_THETA, ordering="softmax", laziness=ALPHA, **options)


def test_gradient_in_theta_dense() -> None:
    """The formula for d Psi / d Theta against autograd of dense matrices."""
    walk = walk_of(dense(gradient_graph()))
    found = jacobian(lambda theta: wavelets_of(theta, walk), SORTED_THETA)
    torch.testing.assert_close(found, formula_in_theta(SORTED_THETA, walk), rtol=0, atol=1e-13)


@pytest.mark.parametrize("t", [1, 2, 5])
def test_gradient_in_weights_dense(t: int) -> None:
    """The formulas for dP / dW and dP^t / dW against autograd, every entry of W on its own."""
    weights = dense(gradient_graph())
    found = jacobian(lambda w: torch.matrix_power(walk_of(w), t), weights)
    for a in range(5):
        for b in range(5):
            wanted = formula_power_in_weight(weights, t, a, b)
            torch.testing.assert_close(found[:, :, a, b], wanted, rtol=0, atol=1e-13)


def test_gradient_in_theta_module() -> None:
    """The formula for d Psi / d Theta against the module's node features."""
    graph, module = gradient_graph(), gradient_module()
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(5, 1)))
    theta = module.selection.theta
    wanted = torch.einsum(
        "jabks,b->jaks", formula_in_theta(SORTED_THETA, walk_of(dense(graph))), x[:, 0]
    )
    bank = bank_of(module, graph, x)
    assert len(bank) == 4
    for j in range(3):
        for node in range(5):
            (found,) = torch.autograd.grad(bank[j][node, 0], theta, retain_graph=True)
            torch.testing.assert_close(found, wanted[j, node], rtol=0, atol=1e-12)


def test_gradient_in_weights_module() -> None:
    """The formula for d Psi / dW against the module, in undirected weights: dW_ab and dW_ba."""
    graph, module = gradient_graph(), gradient_module()
    x = torch.from_numpy(np.random.default_rng(2).normal(size=(5, 1)))
    weights, rows = dense(graph), SORTED_THETA.softmax(dim=1)
    edge_weight = graph.edge_weight.clone().requires_grad_()
    bank = bank_of(module, graph, x, edge_weight)
    source, target = graph.edge_index
    for a, b in sorted({(min(e), max(e)) for e in graph.edge_index.t().tolist()}):
        ends = {(a, b), (b, a)}
        change = [
            sum(formula_power_in_weight(weights, t, *end) for end in ends)
            for t in range(1, STEPS + 1)
        ]
        smooth = torch.einsum("jt,tab->jab", rows, torch.stack(change))
        smooth = torch.cat([torch.zeros_like(smooth[:1]), smooth])
        wanted = torch.cat([smooth[:-1] - smooth[1:], smooth[-1:]]) @ x[:, 0]
        listed = ((source == a) & (target == b)) | ((source == b) & (target == a))
        for j in range(4):
            for node in range(5):
                (found,) = torch.autograd.grad(bank[j][node, 0], edge_weight, retain_graph=True)
                torch.testing.assert_close(found[listed].sum(), wanted[j, node], rtol=0, atol=1e-12)


@pytest.mark.parametrize("ordering", ["ordered", "softmax"])
@pytest.mark.parametrize("learn_laziness", [False, "channel"])
@pytest.mark.parametrize("aggr", ["moments", None])
def test_gradcheck(ordering: str, learn_laziness: bool | str, aggr: str | None) -> None:
    """Finite differences in x, Theta, laziness and undirected weights, away from ties."""
    rng = np.random.default_rng(5)
    pairs = [*star_pairs(5), (1, 2), (2, 3), (4, 5), (5, 6)]
    mirrored = from_pairs(7, pairs).edge_index  # all pairs, then all of them turned round
    module = Scattering(
        2,
        num_scales=3,
        steps=5,
        lowpass=True,
        ordering=ordering,
        learn_laziness=learn_laziness,
        aggr=aggr,
    ).double()
    with torch.no_grad():
        module.selection.theta.add_(torch.from_numpy(rng.normal(size=(3, 5))))
    names = [name for name, _ in module.named_parameters()]

    def features(x: Tensor, undirected: Tensor, *parameters: Tensor) -> Tensor:
        weight = torch.cat([undirected, undirected])
        replaced = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(module, replaced, (x, mirrored, weight))

    inputs = [
        torch.from_numpy(rng.normal(size=(7, 2))),
        torch.from_numpy(rng.uniform(0.5, 2, len(pairs))),
        *[parameter.detach().clone() for parameter in module.parameters()],
    ]
    assert torch.autograd.gradcheck(features, [value.requires_grad_() for value in inputs])
