"""The filter bank as one operator against the reference and dense matrices."""

from __future__ import annotations

import pytest
import torch
from torch.func import vmap

from legs import functional as fn
from legs.functional.bank import OPERATORS, difference_filters, filter_bank
from legs.functional.sparse import row_pointers
from legs.kernels import bank
from tests.kernels import emulation

SIZES = (1, 5, 30, 1, 60, 7)


def random_batch(weighted=False, sizes=SIZES, seed=0, isolated=True):
    """Graphs of given sizes, one of them without edges."""
    source = torch.Generator().manual_seed(seed)
    rows, first = [], 0
    for size in sizes:
        upper = torch.rand(size, size, generator=source) < min(1.0, 3 / size)
        upper = upper.triu(1 if size > 1 else 0)
        if isolated and size > 4:
            upper[:, 2] = upper[2] = False
        rows.append((upper | upper.T).nonzero().T + first)
        first += size
    edge_index = torch.cat(rows, dim=1)
    order = (edge_index[1] * first + edge_index[0]).argsort()
    edge_index = edge_index[:, order]
    weight = None
    if weighted:
        full = torch.rand(first, first, generator=source, dtype=torch.float64) + 0.1
        weight = (full + full.T)[edge_index[0], edge_index[1]]
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    return edge_index, weight, ptr


def made_graph(edge_index, weight, ptr, dtype):
    rowptr = row_pointers(edge_index[1].contiguous(), int(ptr[-1]))
    return bank.make_graph(rowptr, edge_index[0].contiguous(), weight, ptr, dtype)


def dense(edge_index, weight, nodes, operator):
    matrix = torch.zeros(nodes, nodes, dtype=torch.float64)
    values = torch.ones(edge_index.shape[1], dtype=torch.float64) if weight is None else weight
    matrix[edge_index[1], edge_index[0]] = values
    degree = matrix.sum(1)
    matrix += torch.diag((degree == 0).double())
    degree = torch.where(degree > 0, degree, 1)
    left = {"walk": degree**0, "row": 1 / degree, "symmetric": degree**-0.5}[operator]
    right = {"walk": 1 / degree, "row": degree**0, "symmetric": degree**-0.5}[operator]
    return (torch.eye(nodes) + left[:, None] * matrix * right) / 2


@pytest.fixture(params=["cpu", "emulated", "cuda"])
def kernels(request, monkeypatch, tmp_path_factory):
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("needs a GPU")
        yield "cuda"
    elif request.param == "cpu":
        pytest.importorskip("numba")
        yield "cpu"
    else:
        if not emulation.available():
            pytest.skip("needs g++")
        from legs.kernels.gpu import bank as gpu

        monkeypatch.setattr(bank, "kernels_for", lambda x, name: gpu)
        # Small blocks, which are emulated faster, and graphs of all classes.
        monkeypatch.setattr(gpu, "CLASSES", ((8, 8, 32), (32, 4, 64), (None, 4, 64)))
        with emulation.emulated(monkeypatch, tmp_path_factory.getbasetemp()):
            yield "cpu"


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("weighted", [False, True])
def test_reference_is_dense(operator, weighted):
    edge_index, weight, ptr = random_batch(weighted)
    nodes = int(ptr[-1])
    x, filters = torch.randn(nodes, 3).double(), torch.randn(4, 6).double()
    walk = fn.random_walk(edge_index, weight, nodes, torch.float64)
    matrix = dense(edge_index, weight, nodes, operator)
    powers = torch.stack([torch.matrix_power(matrix, t) @ x for t in range(6)])
    expected = torch.einsum("bt,tnc->nbc", filters, powers)
    torch.testing.assert_close(filter_bank(x, walk, filters, operator), expected)


@pytest.mark.parametrize(
    ("operator", "weighted", "own", "channels", "dtype"),
    [
        ("row", False, False, 64, torch.float32),
        ("row", True, True, 19, torch.float64),
        ("walk", False, True, 3, torch.float64),
        ("walk", True, False, 40, torch.float64),
        ("symmetric", True, False, 1, torch.float64),
    ],
)
def test_values_and_gradients(kernels, operator, weighted, own, channels, dtype):
    edge_index, weight, ptr = random_batch(weighted)
    nodes = int(ptr[-1])
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {}
    x = torch.randn(nodes, channels, dtype=dtype)
    filters = torch.randn(8 if own else 6, 9, *[channels] * own, dtype=dtype)
    grad = torch.randn(nodes, len(filters), channels, dtype=dtype)
    walk = fn.random_walk(edge_index, weight, nodes, torch.float64)
    args = [t.double().clone().requires_grad_() for t in (x, filters)]
    expected = filter_bank(args[0], walk, args[1], operator)
    expected.backward(grad.double())
    graph = made_graph(edge_index, weight, ptr, dtype)
    moved = [t.detach().clone().to(kernels).requires_grad_() for t in (x, filters)]
    graph = bank.Graph(*(t.to(kernels) if isinstance(t, torch.Tensor) else t for t in graph))
    out = bank.difference_bank(graph, moved[0], difference_filters(moved[1]), operator)
    out.backward(grad.to(kernels))
    torch.testing.assert_close(out.cpu().double(), expected, **tolerance)
    for mine, theirs in zip(moved, args, strict=True):
        scale = float(theirs.grad.abs().max())
        error = float((mine.grad.cpu().double() - theirs.grad).abs().max())
        assert error <= (1e-5 if dtype == torch.float32 else 1e-10) * scale


def test_mapped_over_models(kernels):
    edge_index, weight, ptr = random_batch()
    nodes = int(ptr[-1])
    graph = made_graph(edge_index, weight, ptr, torch.float64)
    graph = bank.Graph(*(t.to(kernels) if isinstance(t, torch.Tensor) else t for t in graph))
    x = torch.randn(3, nodes, 5, dtype=torch.float64, device=kernels)
    filters = torch.randn(3, 4, 6, dtype=torch.float64, device=kernels)

    def loss(x, filters):
        return bank.difference_bank(graph, x, difference_filters(filters)).square().sum()

    for axes in ((0, 0), (None, 0), (0, None)):
        inputs = [t if a == 0 else t[0] for t, a in zip((x, filters), axes, strict=True)]
        mapped = vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=axes)(*inputs)
        for model in range(3):
            one = [t[model] if a == 0 else t for t, a in zip(inputs, axes, strict=True)]
            single = torch.func.grad(loss, argnums=(0, 1))(*one)
            for a, b in zip(mapped, single, strict=True):
                torch.testing.assert_close(a[model], b)


def test_constants_give_exactly_zero(kernels):
    ring = torch.arange(12)
    edges = torch.stack([ring, ring.roll(1)])
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    edge_index = edge_index[:, edge_index[1].argsort()]
    graph = made_graph(edge_index, None, torch.tensor([0, 12]), torch.float32)
    graph = bank.Graph(*(t.to(kernels) if isinstance(t, torch.Tensor) else t for t in graph))
    x = torch.full((12, 2), 0.1, device=kernels)
    filters = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], device=kernels)
    assert bank.difference_bank(graph, x, difference_filters(filters)).abs().max() == 0


def test_difference_filters():
    filters = torch.randn(2, 5, dtype=torch.float64)
    matrix = torch.rand(3, 3, dtype=torch.float64) / 3
    powers = torch.stack([torch.matrix_power(matrix, t) for t in range(5)])
    expected = torch.einsum("bt,tij->bij", filters, powers)
    first = torch.eye(3, dtype=torch.float64)
    states = torch.stack([first, *(powers[:-1] @ (first - matrix))])
    torch.testing.assert_close(
        torch.einsum("bt,tij->bij", difference_filters(filters), states), expected
    )
