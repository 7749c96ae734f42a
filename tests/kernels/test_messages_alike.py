"""Merged nodes give message-passing networks the states of all nodes, and the same gradients."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from legs.kernels import messages_cpu, messages_cuda, use
from legs.kernels.messages import aggregate, attend, make_graphs
from legs.models import create
from tests.kernels.test_alike import alike_graphs
from tests.models.test_gnn_fast import NAMES, networks

GPU = torch.cuda.is_available()
NUMBA = pytest.mark.skipif(find_spec("numba") is None, reason="the loops need numba")
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@pytest.fixture
def device(way, monkeypatch, request):
    """Where tensors go: ``way`` is plain PyTorch, loops, or the kernels."""
    monkeypatch.setattr(messages_cuda, "LONG", 8)  # small graphs have long rows, too
    if way == "kernels":
        request.getfixturevalue("gpu")
    else:
        monkeypatch.setattr(messages_cuda, "applies", lambda x: False)
        monkeypatch.setattr(messages_cpu, "applies", lambda x: way == "loops")
    with use("fused"):
        yield "cuda" if GPU and way != "loops" else "cpu"


def in_every_way(quick):
    """In every way. Emulated kernels are compiled for every case, so few are quick there."""
    found = []
    for dtype in (torch.float64, torch.float32):
        found.append(pytest.param("plain", dtype, id=f"plain-{dtype}"))
        found.append(pytest.param("loops", dtype, id=f"loops-{dtype}", marks=NUMBA))
        marks = () if GPU or (quick and dtype == torch.float64) else (pytest.mark.long,)
        found.append(pytest.param("kernels", dtype, id=f"kernels-{dtype}", marks=marks))
    return pytest.mark.parametrize(("way", "dtype"), found)


def on(device, dtype, graphs, copies=None):
    """Arguments of ``embed``, with a graph without nodes at the end."""
    x, edge_index, weight, batch, size, *_ = graphs
    place = {"device": device, "dtype": dtype}
    weight = None if weight is None else weight.to(**place)
    copies = None if copies is None else copies.to(**place)
    known = (x.to(**place), edge_index.to(device), weight, batch.to(device), size + 1)
    return *known, None, copies


def embedded(network, given, fast=True):
    """Features and gradients of all parameters that they depend on; by PyG's layers if not fast."""
    network.regular_graphs = fast
    own = [p for name, p in network.named_parameters() if not name.startswith("head.")]
    out = network.embed(*given)
    cotangent = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    grads = torch.autograd.grad((out * cotangent.to(out.device)).sum(), own)
    return [t.detach().cpu() for t in (out, *grads)]


def close(found, expected, dtype=torch.float64):
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        error = (a.double() - b.double()).abs().max() / b.abs().max().clamp_min(1)
        assert error < TOLERANCE[dtype]


@pytest.mark.parametrize("name", NAMES)
@in_every_way(quick=True)
def test_networks(name, way, dtype, device):
    """Three layers, so that gradients go through the second."""
    whole, merged, copies = alike_graphs()
    (network,) = networks(name, count=1, hidden_channels=8)
    expected = embedded(network.to(device), on(device, torch.float64, whole), fast=False)
    found = embedded(network.to(dtype), on(device, dtype, merged, copies))
    assert found[0].abs().max() > 0.1 and all(g.abs().max() > 0 for g in expected[1:])
    close(found, expected, dtype)


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("hidden", [64, 12])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["plain", pytest.param("loops", marks=NUMBA)])
def test_networks_of_any_size(name, hidden, layers, way, device):
    whole, merged, copies = alike_graphs()
    (network,) = networks(name, count=1, hidden_channels=hidden, num_layers=layers)
    network = network.to(device)
    expected = embedded(network, on(device, torch.float64, whole), fast=False)
    close(embedded(network, on(device, torch.float64, merged, copies)), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("way", "dtype"),
    [("plain", torch.float64), pytest.param("loops", torch.float64, marks=NUMBA)],
)
def test_networks_side_by_side(name, way, dtype, device):
    """As models are trained: mapped over, the graphs being the same for all."""
    whole, merged, copies = alike_graphs()
    stack = networks(name, count=2, hidden_channels=8)
    stack[0].regular_graphs, stack[0].forward = True, stack[0].embed  # what is called below
    parameters, buffers = stack_module_state(stack)
    found = []
    for given in (on("cpu", dtype, merged, copies), on("cpu", dtype, whole)):
        own = {k: p.detach().requires_grad_() for k, p in parameters.items() if "head" not in k}
        out = vmap(lambda p, b: functional_call(stack[0], (p, b), given))(own, buffers)  # noqa: B023
        grads = torch.autograd.grad(out.sin().sum(), list(own.values()))
        found.append([x.detach() for x in (out, *grads)])
    close(*found)


@in_every_way(quick=False)
def test_gradients_of_states(way, dtype, device):
    """Also those that lead to a node itself: all its copies' together."""
    whole, merged, copies = alike_graphs()
    generator = torch.Generator().manual_seed(2)
    project = torch.randn(2, 24, dtype=torch.float64, generator=generator).to(device)
    found = []
    for given in (on(device, dtype, merged, copies), on(device, dtype, whole)):
        x, edge_index, weight, batch, size, _, times = given
        graphs = make_graphs(edge_index, weight, batch, len(x), size, times)
        scale = {"pre": 1 + x[:, 0], "post": 2 + x[:, 1]}
        own = (x @ project.to(x.dtype)).sin().requires_grad_()
        z = aggregate(attend(own, graphs, 4), graphs, own=1.0, **scale)
        z = aggregate(z, graphs, side=True, post=scale["post"])
        each = (z / 50).sin().sum(1)  # hubs have large sums
        (grad,) = torch.autograd.grad((each if times is None else times * each).sum(), own)
        sums = torch.zeros(size, 24, dtype=dtype, device=device).index_add(0, batch, grad)
        squares = grad.square() if times is None else grad.square() / times.unsqueeze(-1)
        squares = torch.zeros_like(sums).index_add(0, batch, squares)
        found.append([(t / t.abs().max()).cpu() for t in (sums, squares)])
    close(*found, dtype)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("filling", [0.0, 1.0])
@in_every_way(quick=False)
def test_filling_nodes_count_nowhere(name, filling, way, dtype, device):
    """They have loops of any weight, and stand for no node or for one."""
    _, merged, copies = alike_graphs()
    x, edge_index, weight, batch, size, *_ = merged
    more = torch.arange(6) // 2 + len(x)
    filled = (
        torch.cat([x, x.new_zeros(4, 2)]),
        torch.cat([edge_index, more.expand(2, -1)], 1),
        torch.cat([weight, weight.new_full((6,), 7.0)]),
        torch.cat([batch, batch.new_full((4,), size)]),
        size,
    )
    (network,) = networks(name, count=1, hidden_channels=8)
    network = network.to(device, dtype)
    own = [p for key, p in network.named_parameters() if not key.startswith("head.")]
    network.regular_graphs, found = True, []
    for graphs, times in (
        (merged, copies),
        (filled, torch.cat([copies, torch.full((4,), filling)])),
    ):
        out = network.embed(*on(device, dtype, graphs, times))[:size]
        grads = torch.autograd.grad(out.sin().sum(), own)
        found.append([t.detach().cpu() for t in (out, *grads)])
    close(*found, dtype)


@pytest.mark.parametrize("name", NAMES)
def test_who_may_have_copies(name):
    _, merged, copies = alike_graphs()
    given = on("cpu", torch.float64, merged, copies)
    network = create(name, 2, 3, dropout=0.1).double()
    with use("fused"), pytest.raises(ValueError, match="dropped together"):
        network.embed(*given)
    network.eval()
    with use("fused"):
        expected = network.embed(*given)
    with use("reference"):  # what was merged cannot go back to PyG's layers
        found = network.embed(*given)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    *graphs, size, powers, copies = given
    counted = network.embed(*graphs, None, powers, copies)  # as many graphs as have nodes
    torch.testing.assert_close(counted, expected[: size - 1], rtol=0, atol=1e-10)
