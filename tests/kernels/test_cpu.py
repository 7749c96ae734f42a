"""The CPU kernels against :mod:`legs.functional`, in float64."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legs import functional as fn
from legs.kernels.csr import Batch
from legs.kernels.op import mixed_filters
from tests.kernels.scattered import (
    Case,
    clear_of_kinks,
    dense_coefficients,
    moments,
    reference,
    worst,
)
from tests.strategies import batches, from_pairs, path_pairs, ring_pairs, signals, star_pairs

pytest.importorskip("numba")

from legs.kernels.cpu import scattering, threads
from legs.kernels.csr import make_batch

pytestmark = pytest.mark.usefixtures("one_thread")

# Channels, scales, steps, policy, weights. Each is compiled, which takes some seconds.
SHAPES: list[Any] = [
    (2, 5, 16, "increasing", False),
    (3, 3, 7, "all", True),
]
LONG_SHAPES: list[Any] = [
    (13, 2, 3, "increasing", False),
    (1, 6, 6, "increasing", True),
    (2, 4, 20, "all", False),
    (3, 6, 20, "increasing", True),
    (13, 4, 9, "increasing", False),
    (20, 5, 16, "increasing", False),
    (2, 9, 9, "increasing", False),
    (1, 1, 5, "all", True),
]
shapes = pytest.mark.parametrize(
    ("channels", "scales", "steps", "policy", "weighted"),
    SHAPES + [pytest.param(*shape, marks=pytest.mark.long) for shape in LONG_SHAPES],
)


@st.composite
def cases(draw: st.DrawFn, channels: int, weighted: bool, max_nodes: int = 7) -> Case:
    """Graphs with signals, perhaps with empty graphs among them."""
    drawn = draw(batches(weighted=weighted, max_nodes=max_nodes))
    x = draw(signals(drawn.num_nodes, channels))
    count = drawn.num_graphs + draw(st.integers(0, 2))
    places = draw(st.permutations(range(count)))[: drawn.num_graphs]
    batch = torch.tensor(sorted(places))[drawn.batch]
    return Case(x, drawn.edge_index, drawn.edge_weight, batch, count)


def both(
    batch: Batch, filters: torch.Tensor, grad: torch.Tensor, policy: Any = "increasing"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Moments, and the gradient of the filters."""
    out = scattering.forward(batch, filters, policy)
    return out, scattering.backward(batch, filters, grad, out, policy)


def check(
    case: Case,
    filters: torch.Tensor,
    policy: Any,
    given_powers: bool,
    num_threads: int = 1,
) -> None:
    """Values and gradients equal the reference's."""
    filters = filters.clone().requires_grad_()
    wanted = reference(case, filters, policy)
    grad = torch.randn_like(wanted) * clear_of_kinks(case, filters, policy)
    (wanted_grad,) = torch.autograd.grad(wanted, filters, grad)
    batch = case.prepared(filters.shape[-1] if given_powers else None)
    torch.set_num_threads(num_threads)
    found, found_grad = both(batch, filters, grad, policy)
    torch.set_num_threads(1)
    assert worst(found, wanted.detach()) < 1e-9
    assert worst(found_grad, wanted_grad) < 1e-9


@shapes
def test_equals_the_reference(channels, scales, steps, policy, weighted):
    @settings(max_examples=25, deadline=None)
    @given(
        cases(channels, weighted),
        st.integers(1, 3),
        st.booleans(),
        st.sampled_from([1, 2]),
    )
    def run(case, models, given_powers, num_threads):
        filters = torch.randn(models, channels, scales, steps, dtype=torch.float64)
        check(case, filters, policy, given_powers, num_threads)

    run()


@settings(max_examples=20, deadline=None)
@given(cases(2, False), st.sampled_from([0.5, 0.55, 0.9]))
def test_lazily_mixed_filters_give_the_scattering_moments(case, laziness):
    """Filters as the module makes them."""
    theta = fn.initial_logits(fn.default_scales(5, 16), 16).double()
    cumulative = fn.select_scales(theta + torch.randn_like(theta))
    filters = mixed_filters(cumulative, laziness, 2).unsqueeze(0)
    wanted = moments(case, fn.scattering(case.x, case.walk(), laziness, cumulative))
    found = scattering.forward(case.prepared(), filters, "increasing")
    assert worst(found[0], wanted) < 1e-9


def line_up(*graphs: Any, channels: int = 2) -> Case:
    """Graphs with random signals, the last channel constant."""
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    offsets = (sizes.cumsum(0) - sizes).tolist()
    edges = [graph.edge_index + offset for graph, offset in zip(graphs, offsets, strict=True)]
    x = torch.randn(int(sizes.sum()), channels, dtype=torch.float64)
    x[:, -1] = 0.1
    batch = torch.repeat_interleave(torch.arange(len(graphs)), sizes)
    return Case(x, torch.cat(edges, dim=1), None, batch, len(graphs))


def filters_of(case: Case, models: int = 1) -> torch.Tensor:
    return torch.randn(models, case.x.shape[1], 5, 16, dtype=case.x.dtype)


def test_many_sizes_and_models():
    """Vectors end in the middle of graphs, groups in the middle of models."""
    sizes = [1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 255, 256, 257, 600]
    case = line_up(*[from_pairs(n, path_pairs(n)) for n in sizes])
    check(case, filters_of(case, 5), "increasing", True)


def test_constants_on_regular_graphs_are_exactly_zero():
    case = line_up(from_pairs(6, ring_pairs(6)), from_pairs(1, []), from_pairs(9, ring_pairs(9)))
    grad = torch.zeros(1, 3, 16, 2, 4, dtype=torch.float64)
    grad[..., -1, :] = 1.0
    found, found_grad = both(case.prepared(), filters_of(case), grad)
    assert (found[0, :, 1:, -1] == 0).all()
    assert (found_grad == 0).all()


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-20, 1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_size_of_signals_breaks_it(size, dtype):
    case = line_up(
        from_pairs(1, []),
        from_pairs(3, path_pairs(3)),
        from_pairs(30, star_pairs(30)),
        from_pairs(5, ring_pairs(5)),
    )
    case = case._replace(x=case.x * size).to(dtype)
    filters = filters_of(case)
    found, grad = both(case.prepared(), filters, torch.ones(1, 4, 16, 2, 4, dtype=dtype))
    assert found.isfinite().all() and grad.isfinite().all()
    exact = reference(case.to(torch.float64), filters.double())
    if dtype == torch.float64:  # in units of the signal
        units = torch.tensor([size, size**2, 1, 1], dtype=dtype).clamp_min(1)
        assert worst(found / units, exact / units) < 1e-9
    else:
        assert worst(found[..., 2:].double(), exact[..., 2:]) < 1e-3


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_the_same_bits_every_time(num_threads):
    torch.set_num_threads(num_threads)
    case = line_up(*[from_pairs(n, path_pairs(n)) for n in range(1, 40)])
    batch, filters = case.prepared(), filters_of(case, 2)
    grad = torch.randn(2, 39, 16, 2, 4, dtype=torch.float64)
    first, first_grad = both(batch, filters, grad)
    for _ in range(10):
        found, found_grad = both(batch, filters, grad)
        assert torch.equal(found, first) and torch.equal(found_grad, first_grad)


def test_threads_share_few_graphs_by_models():
    case = line_up(from_pairs(40, star_pairs(40)))
    batch, filters = case.prepared(), filters_of(case, 9)
    grad = torch.randn(9, 1, 16, 2, 4, dtype=torch.float64)
    one, one_grad = both(batch, filters, grad)
    torch.set_num_threads(2)
    two, two_grad = both(batch, filters, grad)
    assert torch.equal(two, one) and torch.equal(two_grad, one_grad)


def test_no_graphs_at_all():
    batch = make_batch(torch.empty(0, 2).double(), torch.empty(2, 0).long(), num_graphs=0)
    batch = batch._replace(ptr=torch.zeros(1, dtype=torch.long))
    filters = torch.randn(3, 2, 5, 16, dtype=torch.float64)
    for num_threads in (1, 2):
        torch.set_num_threads(num_threads)
        found, grad = both(batch, filters, torch.empty(3, 0, 16, 2, 4).double())
        assert found.shape == (3, 0, 16, 2, 4)
        assert (grad == 0).all()


def test_a_large_graph():
    """Sums over 10^5 nodes keep their digits in float32, too."""
    n = 100_000
    case = line_up(from_pairs(n, path_pairs(n)))
    filters = filters_of(case)
    filters /= filters.abs().sum(-1, keepdim=True)
    wanted = reference(case, filters)
    found = scattering.forward(case.prepared(), filters, "increasing")
    assert worst(found, wanted) < 1e-9
    batch = case.to(torch.float32).prepared()
    found = scattering.forward(batch, filters.float(), "increasing")
    assert worst(found.double(), wanted) < 1e-4


def _in_a_child(case: Case, filters: torch.Tensor, queue: Any) -> None:
    queue.put(scattering.forward(case.prepared(), filters, "increasing").tolist())


def test_threads_after_a_fork():
    """A child has none of its parent's threads, and makes its own."""
    torch.set_num_threads(2)
    case = line_up(*[from_pairs(n, path_pairs(n)) for n in range(1, 12)])
    filters = filters_of(case)
    found = scattering.forward(case.prepared(), filters, "increasing")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_a_child, args=(case, filters, queue), daemon=True)
    child.start()
    assert queue.get() == found.tolist()
    child.join()


def test_errors_of_a_thread_reach_the_caller():
    def fails():
        raise ValueError("in a thread")

    with pytest.raises(ValueError, match="in a thread"):
        threads.run([fails, int])


@pytest.mark.parametrize("operator", ["row", "symmetric"])
def test_other_operators(operator):
    sizes = (1, 5, 30, 2)
    case = line_up(*[from_pairs(n, star_pairs(n) if n > 5 else path_pairs(n)) for n in sizes])
    case = case._replace(x=torch.randn(case.x.shape, dtype=torch.float64))
    weight = torch.rand(38, 38, dtype=torch.float64) + 0.1
    case = case._replace(edge_weight=(weight + weight.T)[tuple(case.edge_index)])
    filters = filters_of(case).requires_grad_()
    case.x.requires_grad_()
    wanted = moments(case, dense_coefficients(case, operator, filters[0]), operator).unsqueeze(0)
    grad = torch.randn_like(wanted) * clear_of_kinks(case, filters)
    grads = torch.autograd.grad(wanted, (filters, case.x), grad)
    batch, by_x = case.prepared()._replace(operator=operator), torch.empty(38, 2).double()
    for record in (None, []):
        found = scattering.forward(batch, filters.detach(), "increasing", record)
        change = scattering.backward(
            batch, filters.detach(), grad, found, "increasing", record, by_x
        )
        assert worst(found, wanted.detach()) < 1e-9
        assert worst(change, grads[0]) < 1e-9
        assert worst(by_x, grads[1]) < 1e-8
