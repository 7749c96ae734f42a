"""The faster way of message-passing networks gives what PyG's layers give."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from legs.kernels import messages_cuda, use
from legs.models import create
from tests.graphs import path_graph
from tests.kernels import emulation
from tests.kernels.test_messages import batch_of, some_graphs, star

GPU = torch.cuda.is_available()
NAMES = ["gcn", "graphsage", "gat", "gin", "snowball"]


def networks(name, count=3, **options):
    found = []
    for seed in range(count):
        torch.manual_seed(seed)
        network = create(name, 2, 3, **options).double()
        network.initialize(torch.rand(20, 2, dtype=torch.float64))
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        found.append(network)
    return found


def example(weighted=False, leaves=30):
    """Lone nodes, hubs, and at the end a graph without nodes."""
    graphs = [*some_graphs(), star(leaves), path_graph(4)]
    edge_index, weight, batch, count = batch_of(graphs, torch.float64, weighted)
    x = torch.rand(len(batch), 2, dtype=torch.float64)
    return x, edge_index, weight, batch, count + 1


def both_ways(stack, given, device="cpu"):
    """Outputs and gradients of stacked networks by PyG's layers and by the faster way."""
    parameters, buffers = stack_module_state(stack)
    found = []
    for fast, place in ((False, "cpu"), (True, device)):
        stack[0].regular_graphs = fast
        here = [x.to(place) if isinstance(x, torch.Tensor) else x for x in given]
        own = {k: p.detach().to(place).requires_grad_() for k, p in parameters.items()}
        fixed = {k: b.to(place) for k, b in buffers.items()}
        assert stack[0].is_fast(here[0], stack[0].training) == fast
        out = vmap(lambda p, b: functional_call(stack[0], {**p, **b}, tuple(here)))(own, fixed)  # noqa: B023
        cotangent = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out).to(place)
        grads = torch.autograd.grad((out * cotangent).sum(), list(own.values()))
        found.append([x.detach().cpu() for x in (out, *grads)])
    return found


def close(found):
    for a, b in zip(*found, strict=True):
        assert (a - b).abs().max() <= 1e-10 * b.abs().max().clamp_min(1)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_as_by_pyg(name, weighted, layers):
    with use("fused"):
        close(both_ways(networks(name, num_layers=layers), example(weighted)))


@pytest.mark.parametrize("name", NAMES)
def test_as_by_pyg_on_a_single_graph(name):
    x, edge_index, weight, *_ = example(weighted=True)
    with use("fused"):
        close(both_ways(networks(name, count=1), (x, edge_index, weight)))


@pytest.mark.parametrize("hidden", [64, 12])
@pytest.mark.parametrize("name", NAMES)
def test_as_by_pyg_with_kernels(name, hidden, monkeypatch, tmp_path_factory):
    """On a GPU; emulated, compiling takes a while."""
    monkeypatch.setattr(messages_cuda, "LONG", 8)
    stack, given = networks(name, count=2, hidden_channels=hidden), example(weighted=True)
    if GPU:
        close(both_ways(stack, given, "cuda"))
    elif not emulation.available():
        pytest.skip("neither a GPU nor a C++ compiler")
    else:
        with emulation.emulated(monkeypatch, tmp_path_factory.getbasetemp()), use("fused"):
            close(both_ways(stack, given))


if not GPU:
    test_as_by_pyg_with_kernels = pytest.mark.long(test_as_by_pyg_with_kernels)


@pytest.mark.parametrize("inputs", [2, 5, 16])
@pytest.mark.parametrize("kernels", [False, True])
def test_gradients_of_node_features(kernels, inputs, monkeypatch, tmp_path_factory):
    """Nobody needs them in training, and they are not computed there."""
    if kernels and not (GPU or emulation.available()):
        pytest.skip("neither a GPU nor a C++ compiler")
    device = "cuda" if kernels and GPU else "cpu"
    torch.manual_seed(0)
    network = create("snowball", inputs, 3, hidden_channels=8, num_layers=2).double()
    _, *graph = example(weighted=True)
    x = torch.rand(len(graph[2]), inputs, dtype=torch.float64)
    found = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(use("fused"))
        for fast in (False, True):
            if fast and kernels and not GPU:
                folder = tmp_path_factory.getbasetemp()
                stack.enter_context(emulation.emulated(monkeypatch, folder))
            place = device if fast else "cpu"
            network.to(place).regular_graphs = fast
            own = x.to(place).requires_grad_()
            here = [t.to(place) if isinstance(t, torch.Tensor) else t for t in graph]
            out = network(own, *here)
            grads = torch.autograd.grad(out.sin().sum(), [own, *network.parameters()])
            found.append([t.detach().cpu() for t in (out, *grads)])
    close(found)


def test_no_second_derivatives_of_snowball():
    (network,) = networks("snowball", count=1, hidden_channels=8)
    x, *graph = example()
    network.regular_graphs = True
    with use("fused"):
        out = network(x.requires_grad_(), *graph)
        (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match='use\\("reference"\\)'):
            first.sum().backward()


@pytest.mark.parametrize("name", NAMES)
def test_dropout_as_by_pyg_in_the_mean(name):
    """Dropped states are others, but their expectation over many draws is the same."""
    (network,) = networks(name, count=1, dropout=0.3, hidden_channels=8)
    x, edge_index, _, batch, count = example()
    with use("fused"), torch.no_grad():
        network.regular_graphs = True
        assert network.is_fast(x, training=False)
        assert network.is_fast(x, training=True) == (name != "gat")
        first, second = (network.embed(x, edge_index, None, batch, count) for _ in range(2))
        assert not first.equal(second)
        found = []
        for fast in (True, False):
            network.regular_graphs = fast
            draws = [network.embed(x, edge_index, None, batch, count) for _ in range(400)]
            found.append(torch.stack(draws))
    gap = found[0].mean(0) - found[1].mean(0)
    error = ((found[0].var(0) + found[1].var(0)) / 400).sqrt()
    assert (gap.abs() <= 6 * error + 1e-9).all()


def test_a_graph_of_one_s_own_goes_through_pyg():
    """Nobody has said that graphs are regular: loops and directed edges count as PyG has it."""
    (network,) = networks("gcn", count=1)
    x = torch.rand(3, 2, dtype=torch.float64)
    edge_index = torch.tensor([[0, 0, 1], [0, 1, 2]])
    with use("fused"):
        assert not network.is_fast(x, training=False)
        out = network.embed(x, edge_index)
    expected = network.layers(network.scale(x), edge_index).mean(0, keepdim=True)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_autocast_does_not_touch_the_sums(name):
    network = create(name, 2, 3)
    network.regular_graphs = True
    graph = star(30)
    x = torch.rand(graph.num_nodes, 2)
    expected = network.embed(x, graph.edge_index)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = network.embed(x, graph.edge_index)
    assert found.dtype == torch.float32
    assert found.equal(expected)


@pytest.mark.parametrize("choice", ["auto", "fused", "reference"])
@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("name", NAMES)
def test_no_nodes_at_all(name, count, choice):
    network = create(name, 2, 3).eval()
    network.regular_graphs = True
    none = torch.zeros(0, dtype=torch.long)
    with use(choice):
        out = network(torch.rand(0, 2), none.expand(2, -1), None, none, count)
    assert out.shape == (count, 3)
