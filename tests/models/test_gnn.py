"""Message passing on a sparse product gives what PyG's layers give."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap
from torch_geometric.nn import global_add_pool, global_mean_pool

from legs.models import GNN, create
from tests.graphs import path_graph, random_graph, star, undirected
from tests.kernels.test_merged import alike_graphs

NAMES = ["gcn", "graphsage", "gat", "gin", "snowball"]


def networks(name, count=3, **options):
    stack = []
    for seed in range(count):
        torch.manual_seed(seed)
        network = create(name, 2, 3, **options).double()
        network.initialize(torch.rand(20, 2, dtype=torch.float64))
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        stack.append(network)
    return stack


def example(weighted=False):
    """Random graphs, lone nodes, hubs, and at the end a graph without nodes."""
    generator = torch.Generator().manual_seed(0)
    lone = [undirected(torch.empty(0, 2, dtype=torch.long), size) for size in (1, 3)]
    graphs = [random_graph(9, generator), lone[0], star(30), lone[1], path_graph(5)]
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    starts = sizes.cumsum(0) - sizes
    edges = [graph.edge_index + start for graph, start in zip(graphs, starts, strict=True)]
    edge_index = torch.cat(edges, dim=1)
    low, high = edge_index.min(0).values, edge_index.max(0).values
    weight = (0.5 + ((low * 31 + high * 17) % 11) / 10.0).double() if weighted else None
    batch = torch.repeat_interleave(torch.arange(len(graphs)), sizes)
    x = torch.rand(len(batch), 2, dtype=torch.float64, generator=generator)
    return x, edge_index, weight, batch, len(graphs) + 1


def by_pyg(network, x, edge_index, weight=None, batch=None, count=None):
    """Pooled states by PyG's own forward."""
    states = network.scale(x)
    batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
    if isinstance(network, GNN):
        weighted = network.description["layer"] == "gcn"
        states = network.layers(states, edge_index, edge_weight=weight if weighted else None)
        pool = global_add_pool if network.description["layer"] == "gin" else global_mean_pool
        return pool(states, batch, count)
    for layer in network.layers:
        states = torch.cat([states, layer(states, edge_index, weight).tanh()], dim=-1)
    return global_mean_pool(network.last(states, edge_index, weight).tanh(), batch, count)


def values_and_gradients(out, parameters):
    cotangent = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    gradients = torch.autograd.grad((out * cotangent).sum(), parameters, allow_unused=True)
    return [out.detach(), *(g for g in gradients if g is not None)]


def assert_close(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        assert (a - b).abs().max() <= 1e-10 * b.abs().max().clamp_min(1)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_equals_pyg(name, weighted, layers):
    (network,) = networks(name, count=1, num_layers=layers)
    x, *graph = example(weighted)
    inputs = [x.requires_grad_(), *network.parameters()]
    expected = values_and_gradients(by_pyg(network, x, *graph), inputs)
    assert_close(values_and_gradients(network.embed(x, *graph), inputs), expected)


@pytest.mark.parametrize("name", NAMES)
def test_stacked_models_equal_pyg(name):
    stack, given = networks(name), example(weighted=True)
    stack[0].forward = stack[0].embed
    parameters, buffers = stack_module_state(stack)
    own = {key: p.detach().requires_grad_() for key, p in parameters.items()}
    out = vmap(lambda p, b: functional_call(stack[0], (p, b), given))(own, buffers)
    gradients = torch.autograd.grad(out.sin().sum(), list(own.values()), allow_unused=True)
    for number, network in enumerate(stack):
        expected = by_pyg(network, *given)
        assert_close([out[number].detach()], [expected.detach()])
        alone = torch.autograd.grad(
            expected.sin().sum(), list(network.parameters()), allow_unused=True
        )
        pairs = zip(gradients, alone, strict=True)
        assert_close(*zip(*((a[number], b) for a, b in pairs if b is not None), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_loops_and_directed_edges_count_as_in_pyg(name):
    (network,) = networks(name, count=1)
    x = torch.rand(4, 2, dtype=torch.float64)
    edge_index = torch.tensor([[0, 0, 1, 3, 3], [0, 1, 2, 2, 3]])
    weight = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    for edge_weight in (None, weight):
        expected = by_pyg(network, x, edge_index, edge_weight)
        assert_close([network.embed(x, edge_index, edge_weight)], [expected])


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_merged_nodes_give_what_all_nodes_give(name, layers):
    whole, merged, multiplicity = alike_graphs()
    (network,) = networks(name, count=1, num_layers=layers, hidden_channels=8)
    own = [p for key, p in network.named_parameters() if not key.startswith("head.")]
    outputs = []
    for graphs, counts in ((whole, None), (merged, multiplicity.double())):
        x, edge_index, weight, batch, size, *_ = graphs
        weight = None if weight is None else weight.double()
        out = network.embed(x.double(), edge_index, weight, batch, size + 1, None, counts)
        outputs.append(values_and_gradients(out, own))
    assert outputs[0][0].abs().max() > 0.1
    assert_close(*outputs)


@pytest.mark.parametrize("name", NAMES)
def test_no_dropout_of_merged_nodes(name):
    _, (x, edge_index, weight, batch, size, *_), multiplicity = alike_graphs()
    network = create(name, 2, 3, dropout=0.1).double()
    given = (x.double(), edge_index, weight.double(), batch, size, None, multiplicity)
    with pytest.raises(ValueError, match="dropped together"):
        network.embed(*given)
    assert network.eval().embed(*given).isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_dropout_as_in_pyg_on_average(name):
    """Drawn states differ, but their expectation over many draws is the same."""
    (network,) = networks(name, count=1, dropout=0.3, hidden_channels=8)
    x, edge_index, _, batch, count = example()
    if name == "snowball":
        pytest.skip("PyG has no snowball network")
    with torch.no_grad():
        draws = [
            torch.stack([embed(x, edge_index, None, batch, count) for _ in range(400)])
            for embed in (network.embed, lambda *given: by_pyg(network, *given))
        ]
    assert not draws[0][0].equal(draws[0][1])
    gap = draws[0].mean(0) - draws[1].mean(0)
    error = ((draws[0].var(0) + draws[1].var(0)) / 400).sqrt()
    assert (gap.abs() <= 6 * error + 1e-9).all()


@pytest.mark.parametrize("name", NAMES)
def test_autocast_does_not_touch_the_sums(name):
    network = create(name, 2, 3)
    graph = star(30)
    x = torch.rand(graph.num_nodes, 2)
    expected = network.embed(x, graph.edge_index)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = network.embed(x, graph.edge_index)
    assert out.dtype == torch.float32
    assert out.equal(expected)


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("name", NAMES)
def test_no_nodes_at_all(name, count):
    network = create(name, 2, 3).eval()
    none = torch.zeros(0, dtype=torch.long)
    out = network(torch.rand(0, 2), none.expand(2, -1), None, none, count)
    assert out.shape == (count, 3)
