"""Deep message passing: layers as PyG has them, stacks, masks, filled batches, saving."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv, SAGEConv
from torch_geometric.utils import add_self_loops

import legs
from legs.models import create
from legs.models.deep_gnn import DeepGNN
from legs.models.network import Graphs
from tests.models.test_deep import graphs

NAMES = ["gcn-deep", "sage-deep", "gat-deep", "gin-deep"]
OPTIONS = {"hidden_channels": 8, "num_layers": 2}


def made(name, seed=0, **options):
    torch.manual_seed(seed)
    network = create(name, 3, 2, **OPTIONS, **options).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return network


def looped():
    """Directed edges, a self-loop, and a node without edges."""
    return torch.tensor([[0, 0, 1, 3, 3, 4], [0, 1, 2, 2, 4, 1]])


def by_pyg(conv, states, edge_index, weight, bonds):
    """A layer by PyG, with the same weights; in GCN and SAGE, messages with bonds by hand."""
    if conv.layer == "gat":
        options = {"fill_value": 0.0, "edge_dim": None if bonds is None else bonds.shape[1]}
        layer = GATConv(8, 2, 4, bias=conv.attention.bias is not None, **options).double()
        layer.load_state_dict(conv.attention.state_dict())
        return layer(states, edge_index, bonds)
    if conv.layer == "gin":
        if bonds is None:
            layer, more = GINConv(nn.Linear(8, 8), train_eps=True), ()
        else:
            layer = GINEConv(nn.Linear(8, 8), train_eps=True, edge_dim=bonds.shape[1]).double()
            layer.lin.load_state_dict(conv.lin_edge.state_dict())
            more = (bonds,)
        layer.nn, layer.eps = conv.lin, conv.eps
        return layer(states, edge_index, *more)
    if bonds is not None:
        return with_bonds(conv, states, edge_index, weight, bonds)
    if conv.layer == "gcn":
        layer = GCNConv(8, 8, bias=conv.lin.bias is not None).double()
        layer.lin.weight, layer.bias = conv.lin.weight, conv.lin.bias
        return layer(states, edge_index, weight)
    layer = SAGEConv(8, 8, bias=conv.lin.bias is not None).double()
    left, right = (nn.Parameter(part) for part in conv.lin.weight.split(8, dim=1))
    layer.lin_l.weight, layer.lin_r.weight, layer.lin_l.bias = left, right, conv.lin.bias
    return layer(states, edge_index)


def with_bonds(conv, states, edge_index, weight, bonds):
    nodes = len(states)
    if conv.layer == "gcn":
        weight = torch.ones(len(bonds), dtype=bonds.dtype) if weight is None else weight
        loop = edge_index[0] == edge_index[1]
        own = torch.ones(nodes, dtype=bonds.dtype)
        own[edge_index[0, loop]] = weight[loop]
        bonds = torch.cat([bonds[~loop], torch.zeros(nodes, bonds.shape[1], dtype=bonds.dtype)])
        edge_index, _ = add_self_loops(edge_index[:, ~loop], num_nodes=nodes)
        weight = torch.cat([weight[~loop], own])
    matrix = torch.zeros(nodes, len(bonds), dtype=bonds.dtype)  # from messages to nodes
    source, target = edge_index
    matrix[target, torch.arange(len(bonds))] = 1
    if conv.layer == "gcn":
        degree = matrix @ weight
        matrix = matrix * weight / (degree[source] * degree[target]).sqrt()
    else:
        matrix = matrix / matrix.sum(1, keepdim=True).clamp_min(1)
    sums = matrix @ (states[source] + conv.lin_edge(bonds)).relu()
    return conv.lin(sums if conv.layer == "gcn" else torch.cat([sums, states], dim=1))


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("name", NAMES)
def test_layers_equal_pyg(name, edge_dim, norm):
    network = made(name, edge_dim=edge_dim, norm=norm)
    conv = network.convs[0]
    for edge_index in (graphs()[1], looped()):
        edges = edge_index.shape[1]
        bonds = None if edge_dim is None else torch.rand(edges, edge_dim, dtype=torch.float64)
        for weight in (None, torch.rand(edges, dtype=torch.float64) + 0.5):
            states = torch.randn(15, 8, dtype=torch.float64, requires_grad=True)
            batch = Graphs(states, edge_index, weight, edge_attr=bonds)
            out, bias = network._layer(conv, states, network._prepared(states, batch), batch)
            assert (bias is None) == (norm == "batch")
            out = out if bias is None else out + bias
            expected = by_pyg(conv, states, edge_index, weight, bonds)
            torch.testing.assert_close(out, expected)
            change = torch.autograd.grad(out.sin().sum(), states)
            torch.testing.assert_close(change, torch.autograd.grad(expected.sin().sum(), states))


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("name", NAMES)
def test_invariant_under_renumbering(name, edge_dim):
    x, edge_index, _, batch, size = graphs()
    bonds = None if edge_dim is None else torch.rand(edge_index.shape[1], 3, dtype=torch.float64)
    network = made(name, edge_dim=edge_dim).eval()
    order = torch.cat([torch.randperm(4), 4 + torch.randperm(5), 9 + torch.randperm(6)])
    place, shuffled = order.argsort(), torch.randperm(edge_index.shape[1])
    out = network(x.double(), edge_index, None, batch, size, edge_attr=bonds)
    more = {"edge_attr": None if bonds is None else bonds[shuffled]}
    moved = network(x.double()[order], place[edge_index[:, shuffled]], None, batch, size, **more)
    torch.testing.assert_close(out, moved)


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("name", NAMES)
def test_graphs_outside_the_mask_change_nothing(name, norm):
    x, edge_index, _, batch, size = graphs()
    other = x.clone()
    other[batch == 2] *= 7
    results = []
    for signals in (x, other):
        network = made(name, norm=norm, dropout=0.0)
        mask = torch.tensor([True, True, False])
        out = network(signals.double(), edge_index, None, batch, size, mask=mask)
        results.append((out[:2], network.state_dict()))
    torch.testing.assert_close(*(out for out, _ in results))
    for key, value in results[0][1].items():
        torch.testing.assert_close(value, results[1][1][key])


@pytest.mark.parametrize("options", [{}, {"edge_dim": 3}, {"norm": "layer"}])
@pytest.mark.parametrize("name", NAMES)
def test_stacked_models_are_those_alone(name, options):
    x, edge_index, _, batch, size = graphs()
    networks = [made(name, seed, dropout=0.0, **options) for seed in range(3)]
    masks = torch.tensor([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.float64)
    more = {}
    if "edge_dim" in options:
        more["edge_attr"] = torch.rand(edge_index.shape[1], 3, dtype=torch.float64)
    arguments = (x.double(), edge_index, None, batch, size)
    parameters, buffers = stack_module_state(networks)
    buffers = {key: value.clone() for key, value in buffers.items()}

    def run(parameters, buffers, mask):
        state = {**parameters, **buffers}
        return functional_call(networks[0], state, arguments, {"mask": mask, **more})

    out = vmap(run)(parameters, buffers, masks)
    grads = torch.autograd.grad((out * masks.unsqueeze(-1)).square().sum(), parameters.values())
    for place, (network, mask) in enumerate(zip(networks, masks, strict=True)):
        alone = network(*arguments, mask=mask, **more)
        torch.testing.assert_close(out[place], alone)
        (alone * mask.unsqueeze(-1)).square().sum().backward()
        for (key, parameter), grad in zip(network.named_parameters(), grads, strict=True):
            torch.testing.assert_close(grad[place], parameter.grad, msg=key, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_edge_features_count(name, tmp_path):
    x, edge_index, _, batch, size = graphs()
    network = made(name, edge_dim=2).float().eval()
    bonds = torch.rand(edge_index.shape[1], 2)
    out = network(x, edge_index, None, batch, size, edge_attr=bonds)
    assert not torch.allclose(out, network(x, edge_index, None, batch, size, edge_attr=0 * bonds))
    with pytest.raises(ValueError, match="edge_attr is missing"):
        network(x, edge_index, None, batch, size)
    network.save(tmp_path / "model")
    loaded = legs.load(tmp_path / "model")
    assert isinstance(loaded, DeepGNN)
    assert torch.equal(loaded(x, edge_index, None, batch, size, edge_attr=bonds), out)


@pytest.mark.parametrize("name", NAMES)
def test_drawn_again(name):
    network = made(name, edge_dim=2)
    before = {key: value.clone() for key, value in network.named_parameters()}
    network.reset_parameters()
    assert all(not value.equal(before[key]) for key, value in network.named_parameters())
    assert network.output_layer.startswith("head.")


@pytest.mark.parametrize("name", NAMES)
def test_no_nodes_at_all(name):
    none = torch.zeros(0, dtype=torch.long)
    out = create(name, 3, 2).eval()(torch.rand(0, 3), none.expand(2, -1), None, none, 2)
    assert out.shape == (2, 2)


def test_options():
    for name in NAMES:
        with pytest.raises(ValueError, match="has no option 'num_scales'"):
            create(name, 3, 2, num_scales=3)
        assert create(name, 3, 2, readout="mean").head is not None
    with pytest.raises(ValueError, match="multiple of 4; got 10"):
        create("gat-deep", 3, 2, hidden_channels=10)
    with pytest.raises(ValueError, match="num_layers must be at least 1"):
        create("gin-deep", 3, 2, num_layers=0)
    with pytest.raises(ValueError, match='layer must be "gcn"'):
        DeepGNN("gat2", 3, 2)
