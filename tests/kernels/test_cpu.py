"""The CPU kernels against :mod:`legs.functional`, in float64."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legs import functional as fn
from legs.kernels import cpu, cpu_fork, cpu_threads
from tests.kernels.scattered import Case, clear_of_kinks, moments, reference, worst
from tests.strategies import batches, from_pairs, path_pairs, ring_pairs, signals, star_pairs

pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("one_thread")

# Channels, scales, steps, policy, weights. Each is compiled, which takes some seconds.
SHAPES: list[Any] = [
    (2, 5, 16, "increasing", False),
    (3, 3, 7, "all", True),
]
LONG_SHAPES: list[Any] = [
    (13, 2, 3, "increasing", False),
    (1, 1, 1, "increasing", True),
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


def check(
    case: Case,
    filters: torch.Tensor,
    policy: Any,
    given_powers: bool,
    laziness: float = 0.0,
    threads: int = 1,
) -> None:
    """Values and gradients equal the reference's."""
    filters = filters.clone().requires_grad_()
    wanted = reference(case, filters, policy, laziness)
    grad = torch.randn_like(wanted) * clear_of_kinks(case, filters, policy, laziness)
    (wanted_grad,) = torch.autograd.grad(wanted, filters, grad)
    powers = case.powers(filters.shape[-1], laziness) if given_powers else None
    graphs = case.compressed()
    torch.set_num_threads(threads)
    found = cpu.forward(case.x, powers, *graphs, filters, policy, laziness)
    found_grad = cpu.backward(case.x, powers, *graphs, filters, grad, policy, laziness)
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
        st.sampled_from([0.0, 0.5]),
    )
    def run(case, models, given_powers, threads, laziness):
        filters = torch.randn(models, channels, scales, steps, dtype=torch.float64)
        check(case, filters, policy, given_powers, laziness, threads)

    run()


@settings(max_examples=20, deadline=None)
@given(cases(2, False), st.sampled_from([0.5, 0.55, 0.9]))
def test_lazily_mixed_filters_give_the_scattering_moments(case, laziness):
    """Filters as the module makes them, in powers of the walk itself."""
    theta = fn.initial_logits(fn.default_scales(5, 16), 16).double()
    cumulative = fn.select_scales(theta + torch.randn_like(theta))
    wavelets = fn.wavelet_weights(cumulative)
    filters = (wavelets @ fn.lazy_mixture(laziness, 16, like=wavelets)).expand(1, 2, -1, -1)
    wanted = moments(case, fn.scattering(case.x, case.walk(), laziness, cumulative))
    found = cpu.forward(case.x, None, *case.compressed(), filters)
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
    found = cpu.forward(case.x, None, *case.compressed(), filters_of(case))
    assert (found[0, :, 1:, -1] == 0).all()
    grad = torch.zeros_like(found)
    grad[..., -1, :] = 1.0
    found = cpu.backward(case.x, None, *case.compressed(), filters_of(case), grad)
    assert (found == 0).all()


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
    found = cpu.forward(case.x, None, *case.compressed(), filters)
    grad = cpu.backward(case.x, None, *case.compressed(), filters, torch.ones_like(found))
    assert found.isfinite().all() and grad.isfinite().all()
    exact = reference(case.to(torch.float64), filters.double())
    if dtype == torch.float64:
        assert worst(found, exact) < 1e-9
    else:
        assert worst(found[..., 2:].double(), exact[..., 2:]) < 1e-3


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_bits_every_time(threads):
    torch.set_num_threads(threads)
    case = line_up(*[from_pairs(n, path_pairs(n)) for n in range(1, 40)])
    graphs, filters = case.compressed(), filters_of(case, 2)
    first = cpu.forward(case.x, None, *graphs, filters)
    grad = torch.randn_like(first)
    first_grad = cpu.backward(case.x, None, *graphs, filters, grad)
    for _ in range(10):
        assert torch.equal(cpu.forward(case.x, None, *graphs, filters), first)
        assert torch.equal(cpu.backward(case.x, None, *graphs, filters, grad), first_grad)


def test_threads_share_few_graphs_by_models():
    case = line_up(from_pairs(40, star_pairs(40)))
    graphs, filters = case.compressed(), filters_of(case, 9)
    one = cpu.forward(case.x, None, *graphs, filters)
    grad = torch.randn_like(one)
    one_grad = cpu.backward(case.x, None, *graphs, filters, grad)
    torch.set_num_threads(2)
    assert torch.equal(cpu.forward(case.x, None, *graphs, filters), one)
    assert torch.equal(cpu.backward(case.x, None, *graphs, filters, grad), one_grad)


def test_no_graphs_at_all():
    nothing = Case(torch.empty(0, 2).double(), torch.empty(2, 0).long(), None, torch.tensor([]), 0)
    graphs = (*cpu.counting_sort_csr(nothing.edge_index, None, 0), torch.tensor([0]))
    filters = torch.randn(3, 2, 5, 16, dtype=torch.float64)
    found = cpu.forward(nothing.x, None, *graphs, filters)
    assert found.shape == (3, 0, 16, 2, 4)
    assert (cpu.backward(nothing.x, None, *graphs, filters, found) == 0).all()


def test_a_large_graph():
    """Sums over 10^5 nodes keep their digits in float32, too."""
    n = 100_000
    case = line_up(from_pairs(n, path_pairs(n)))
    filters = filters_of(case)
    filters /= filters.abs().sum(-1, keepdim=True)
    wanted = reference(case, filters)
    found = cpu.forward(case.x, None, *case.compressed(), filters)
    assert worst(found, wanted) < 1e-9
    case = case.to(torch.float32)
    found = cpu.forward(case.x, None, *case.compressed(), filters.float())
    assert worst(found.double(), wanted) < 1e-4


@pytest.mark.skipif(cpu_fork.addresses() == cpu_fork.NOWHERE, reason="another OpenMP, or none")
def test_threads_of_pytorch_and_our_own_give_the_same_bits(monkeypatch):
    torch.set_num_threads(3)
    case = line_up(*[from_pairs(n, path_pairs(n)) for n in range(1, 12)])
    filters = filters_of(case)
    grad = torch.rand(1, 11, 16, 2, 4, dtype=filters.dtype)

    def both():
        call = (case.x, None, *case.compressed(), filters)
        return cpu.forward(*call), cpu.backward(*call, grad)

    found = both()
    started = []
    run = cpu_threads.run
    monkeypatch.setattr(cpu_threads, "run", lambda calls: started.append(len(calls)) or run(calls))
    monkeypatch.setattr(cpu_fork, "addresses", lambda: cpu_fork.NOWHERE)
    for one, other in zip(both(), found, strict=True):
        assert one.equal(other)
    assert started == [3, 3]


def _in_a_child(case: Case, filters: torch.Tensor, queue: Any) -> None:
    queue.put(cpu.forward(case.x, None, *case.compressed(), filters).tolist())


def test_threads_after_a_fork():
    """A child has none of its parent's threads, and makes its own."""
    torch.set_num_threads(2)
    case = line_up(*[from_pairs(n, path_pairs(n)) for n in range(1, 12)])
    filters = filters_of(case)
    found = cpu.forward(case.x, None, *case.compressed(), filters)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_a_child, args=(case, filters, queue), daemon=True)
    child.start()
    assert queue.get() == found.tolist()
    child.join()


def test_what_is_wrong_is_said():
    case = line_up(from_pairs(3, path_pairs(3)), from_pairs(3, path_pairs(3)))
    rowptr, col, _, ptr = case.compressed()
    filters = filters_of(case)
    call = (case.x, None, rowptr, col, None, ptr, filters)
    with pytest.raises(ValueError, match="an edge leads from one graph to another"):
        cpu.forward(*call[:5], torch.tensor([0, 2, 6]), filters)
    with pytest.raises(ValueError, match="neither may decrease"):
        cpu.forward(*call[:5], torch.tensor([0, 4, 3, 6]), filters)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for wrong in ([0, 3], [0, 9, 6], [1, 6]):
            with pytest.raises(ValueError, match="neither may decrease"):
                cpu.forward(*call[:5], torch.tensor(wrong), filters)
    with pytest.raises(ValueError, match="neither may decrease"):
        cpu.backward(*call[:2], rowptr.flip(0), *call[3:], torch.zeros(1, 2, 16, 2, 4))
    with pytest.raises(ValueError, match=r"powers must have shape \[6, 16, 2\]"):
        cpu.forward(case.x, torch.zeros(6, 15, 2), *call[2:])
    with pytest.raises(ValueError, match=r"grad must have shape"):
        cpu.backward(*call, torch.zeros(1, 2, 16, 2, 3))
    with pytest.raises(ValueError, match="policy must be"):
        cpu.forward(*call, "decreasing")
    with pytest.raises(ValueError, match="float32 or float64"):
        cpu.forward(case.x.half(), *call[1:])
    with pytest.raises(ValueError, match="numbers from 0 to 1 "):
        cpu.counting_sort_csr(torch.tensor([[0, 2], [1, 0]]), None, 2)


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(0, 60))
def test_counting_sort(nodes, edges):
    index, weight = torch.randint(nodes, (2, edges)), torch.rand(edges)
    order = torch.argsort(index[1], stable=True)
    rowptr, col, sorted_weight = cpu.counting_sort_csr(index, weight, nodes)
    assert torch.equal(col, index[0][order])
    assert torch.equal(sorted_weight, weight[order])
    assert torch.equal(rowptr.diff(), torch.bincount(index[1], minlength=nodes))
    assert int(rowptr[0]) == 0
