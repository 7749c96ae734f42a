"""Scattering at the edges of what numbers hold: finite or refused, and the frame bound kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from legs import Moments, Scattering
from tests.backends import prefer
from tests.strategies import RANDOM_FAMILIES, random_graph

KINDS = {
    "normalized": {},
    "all paths, low-pass": {"path_policy": "all", "lowpass": True, "num_scales": 3},
    "dyadic, nodes": {"scales": "dyadic", "aggr": None},
    "sums": {"aggr": Moments("sum", order=4)},
    "laziness by channel": {"learn_laziness": "channel", "laziness": 0.6},
}
# Of signals, so that the fourth powers of their sums can still be held.
LARGEST = {torch.float32: 1e6, torch.float64: 1e60}
SMALLEST = {torch.float32: 1e-44, torch.float64: 1e-322}  # both are subnormal


def drawn(seed: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Signals, edges and weights of any size that there is, in one graph."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, RANDOM_FAMILIES)
    low, high = np.log10(SMALLEST[dtype]), np.log10(LARGEST[dtype])
    size = 10.0 ** rng.uniform(low, high, size=(1, 2))
    x = torch.from_numpy(rng.normal(size=(graph.num_nodes, 2)) * size)
    source, target = graph.edge_index
    # The same for both directions of an edge: it follows from the pair of nodes.
    spread = rng.choice([0.0, 1.0, 30.0])
    exponent = spread * np.sin(1.0 + (source * target + source + target).double().numpy() * 7.3)
    weight = torch.from_numpy(10.0**exponent)
    return x.to(dtype), graph.edge_index, weight.to(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32))
def test_values_and_slopes_are_finite(kind, dtype, seed):
    x, edges, weight = drawn(seed, dtype)
    module = Scattering(2, **KINDS[kind]).to(dtype)
    with torch.no_grad(), prefer("fused"):
        assert torch.isfinite(module(x, edges, weight)).all()
    x.requires_grad_()
    found = module(x, edges, weight)
    assert torch.isfinite(found).all()
    (found / (1 + found.detach().abs().max())).sum().backward()
    slopes = [x.grad, *(p.grad for p in module.parameters() if p.grad is not None)]
    assert all(bool(torch.isfinite(slope).all()) for slope in slopes)


@pytest.mark.parametrize(
    ("dtype", "slack"), [(torch.float32, 1e-4), (torch.float64, 1e-9)], ids=["float32", "float64"]
)
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32))
def test_the_frame_bound_is_kept(dtype, slack, seed):
    """``|Φx|² + Σ|Ψx|² ≤ |x|²`` in the norm that divides by degrees, whatever the weights are."""
    x, edges, weight = drawn(seed, dtype)
    # Subnormal numbers have no relative precision.
    x = x / x.abs().amax(0).clamp_min(1e-300) if dtype == torch.float64 else x.sign()
    module = Scattering(2, order=1, lowpass=True, aggr=None).to(dtype)
    with torch.no_grad():
        module.selection.theta += torch.randn(module.selection.theta.shape).to(dtype)
        found = module(x, edges, weight).reshape(len(x), -1, 2).double()
    names = [column.path for column in module.columns()][::2]
    last = module.selection.num_scales
    bank = [k for k, path in enumerate(names) if path == (last,) or (len(path) == 1)]
    degree = torch.zeros(len(x), dtype=torch.double)
    degree.index_add_(0, edges[1], weight.double())
    degree[degree == 0] = 1
    degree /= degree.min()  # the bound does not depend on the unit
    norm = (x.double() ** 2 / degree[:, None]).sum(0)
    held = (found[:, bank] ** 2 / degree[:, None, None]).sum((0, 1))
    assert (held <= norm * (1 + slack) + 1e-300).all()


@pytest.mark.long
def test_a_hub_of_a_hundred_thousand():
    leaves = 100_000
    hub, leaf = torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)
    edges = torch.cat([torch.stack([hub, leaf]), torch.stack([leaf, hub])], dim=1)
    x = torch.randn(leaves + 1, 1)
    module = Scattering(1, num_scales=3)
    found = module(x, edges)
    assert torch.isfinite(found).all()
    exact = Scattering(1, num_scales=3).double()
    with torch.no_grad(), prefer("reference"):
        wanted = exact(x.double(), edges)
        assert (found - wanted).abs().max() <= 1e-3 * wanted.abs().max()
    found.sum().backward()
    assert torch.isfinite(module.selection.theta.grad).all()


def test_a_path_of_a_million():
    nodes = 1_000_000
    place = torch.arange(nodes - 1)
    edges = torch.cat([torch.stack([place, place + 1]), torch.stack([place + 1, place])], dim=1)
    x = torch.zeros(nodes, 1)
    x[nodes // 2] = 1.0
    module = Scattering(1, order=1, num_scales=3, steps=4, aggr=None, validate=False)
    with torch.no_grad():
        found = module(x, edges)
    assert torch.isfinite(found).all()
    # Nothing of it gets further than the steps, and what there is stays.
    assert (found[: nodes // 2 - 5] == 0).all()
    assert abs(float(found[:, 1:].double().sum())) < 1e-5


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0, -1e-30])
def test_weights_that_are_none(wrong):
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight = torch.tensor([1.0, 1.0, wrong, wrong])
    with pytest.raises(ValueError, match=r"edge_weight must be finite and non-negative; edge 2"):
        Scattering(1)(torch.rand(3, 1), edges, weight)
