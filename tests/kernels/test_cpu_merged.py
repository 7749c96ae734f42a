"""The CPU kernels on merged nodes, against :mod:`legs.functional` on all nodes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data import GraphDataset, merge_equivalent
from legs.kernels.csr import make_batch
from legs.nn import Scattering
from tests.data.test_merge import graphs
from tests.kernels.scattered import Case, clear_of_kinks, reference, worst
from tests.kernels.test_merged import alike_graphs, compare, expected_of, merged_batch, walk_powers

pytest.importorskip("numba")

from legs.kernels.cpu import scattering

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("policy", "dtype"),
    [
        ("increasing", torch.float64),
        # To compile kernels for other sizes takes long.
        pytest.param("increasing", torch.float32, marks=pytest.mark.long),
        pytest.param("all", torch.float64, marks=pytest.mark.long),
        pytest.param("all", torch.float32, marks=pytest.mark.long),
    ],
)
def test_as_on_all_nodes(policy, dtype):
    whole, merged, multiplicity = alike_graphs()
    for models in (1, 2):
        filters, *wanted, cotangent = expected_of(whole, models, policy)
        used, grad = filters.detach().to(dtype), cotangent.to(dtype)
        for with_powers in (False, True):
            batch = merged_batch(merged, multiplicity, with_powers, device="cpu", dtype=dtype)
            found = scattering.forward(batch, used, policy)
            found_grad = scattering.backward(batch, used, grad, found, policy)
            compare(found, found_grad, filters, *wanted, cotangent)


def together(parts: list[GraphDataset]) -> GraphDataset:
    sizes = torch.tensor([part.num_nodes for part in parts])
    ptr = torch.cat([torch.zeros(1).long(), sizes.cumsum(0)])
    edges = [part.whole().edge_index + k for part, k in zip(parts, ptr, strict=False)]
    x = torch.cat([part.x for part in parts]).double()
    return GraphDataset.from_edges(x, ptr, torch.cat(edges, 1))


@pytest.mark.parametrize("policy", ["increasing", pytest.param("all", marks=pytest.mark.long)])
def test_any_graphs(policy):
    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(graphs(), min_size=1, max_size=4),
        st.booleans(),
        # Small filters: the variance is near its floor, which the energy of all nodes sets.
        st.sampled_from([1.0, 3e-2, 1e-3]),
        st.integers(0, 1000),
    )
    def run(parts, with_powers, scale, seed):
        data = together(parts)
        whole, (small, multiplicity) = data.whole(), merge_equivalent(data)
        merged = small.whole()
        case = Case(whole.x, whole.edge_index, None, whole.batch, len(data))
        generator = torch.Generator().manual_seed(seed)
        filters = torch.randn(1, 2, 3, 5, dtype=torch.float64, generator=generator)
        filters.mul_(scale).requires_grad_()
        wanted = reference(case, filters, policy)
        grad = torch.randn(wanted.shape, dtype=torch.float64, generator=generator)
        grad *= clear_of_kinks(case, filters, policy, exact=False)
        (wanted_grad,) = torch.autograd.grad(wanted, filters, grad)
        batch = merged_batch(merged, multiplicity, with_powers, device="cpu", dtype=torch.float64)
        found = scattering.forward(batch, filters, policy)
        found_grad = scattering.backward(batch, filters, grad, found, policy)
        assert worst(found, wanted.detach()) < 1e-9
        size = wanted_grad.abs().max().clamp_min(1)
        assert worst(found_grad / size, wanted_grad / size) < 1e-9

    run()


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
def test_one_copy_each_is_none(threads):
    """To the last bit."""
    torch.set_num_threads(threads)
    whole, _, _ = alike_graphs()
    batch = make_batch(*whole[:5])
    counted = batch._replace(multiplicity=torch.ones(len(whole.x), dtype=torch.float64))
    filters = torch.randn(2, 2, 3, 5, dtype=torch.float64)
    plain = scattering.forward(batch, filters, "increasing")
    assert torch.equal(scattering.forward(counted, filters, "increasing"), plain)
    grad = torch.randn_like(plain)
    found = scattering.backward(counted, filters, grad, plain, "increasing")
    assert torch.equal(found, scattering.backward(batch, filters, grad, plain, "increasing"))


@pytest.mark.long
@pytest.mark.parametrize("with_powers", [False, True])
def test_module(with_powers):
    whole, merged, multiplicity = alike_graphs()
    module = Scattering(2, num_scales=3, steps=5, learn_laziness=True).double()
    powers = walk_powers(*merged[:3], 5, multiplicity) if with_powers else None
    module.backend = "reference"
    expected = module(*whole[:5])
    module.backend = "fused"
    found = module(*merged[:5], powers=powers, multiplicity=multiplicity)
    assert worst(found.detach(), expected.detach()) < 1e-9
    cotangent = torch.randn(expected.shape, dtype=torch.float64)
    wanted = torch.autograd.grad(expected, list(module.parameters()), cotangent)
    got = torch.autograd.grad(found, list(module.parameters()), cotangent)
    for one, other in zip(got, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-9, rtol=1e-8)
