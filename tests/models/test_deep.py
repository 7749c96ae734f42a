"""The deep network: symmetry, stacks, masks, edge features, saving."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

import legs
from legs.models import create
from legs.training.cv.protocol import check_grid
from legs.training.methods import check_options

OPTIONS = {"hidden_channels": 8, "num_layers": 2, "num_scales": 3}


def graphs(seed=0, edge_dim=None):
    source = torch.Generator().manual_seed(seed)
    upper = (torch.rand(15, 15, generator=source) < 0.3).triu(1)
    upper[:9, 9:] = False
    edge_index = (upper | upper.T).nonzero().T
    x = torch.randn(15, 3, generator=source)
    batch = torch.tensor([0] * 4 + [1] * 5 + [2] * 6)
    upper = edge_index[:, (batch[edge_index[0]] == batch[edge_index[1]])]
    return x, upper, None, batch, 3


def made(**options):
    torch.manual_seed(0)
    return create("legs-deep", 3, 2, **OPTIONS, **options)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_invariant_under_renumbering(norm):
    x, edge_index, _, batch, size = graphs()
    network = made(norm=norm).double().eval()
    order = torch.cat([torch.randperm(4), 4 + torch.randperm(5), 9 + torch.randperm(6)])
    place = order.argsort()
    out = network(x.double(), edge_index, None, batch, size)
    moved = network(x.double()[order], place[edge_index], None, batch, size)
    torch.testing.assert_close(out, moved)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_graphs_outside_the_mask_change_nothing(norm):
    x, edge_index, _, batch, size = graphs()
    mask = torch.tensor([True, True, False])
    other = x.clone()
    other[batch == 2] *= 7
    results = []
    for signals in (x, other):
        network = made(norm=norm, dropout=0.0)
        out = network(signals, edge_index, None, batch, size, mask=mask)
        results.append((out[:2], network.state_dict()))
    torch.testing.assert_close(*(out for out, _ in results))
    for name, value in results[0][1].items():
        torch.testing.assert_close(value, results[1][1][name])


@pytest.mark.parametrize("options", [{}, {"scales": "learned", "norm": "layer"}])
def test_stacked_models_are_those_alone(options):
    x, edge_index, _, batch, size = graphs()
    networks = []
    for seed in range(3):
        torch.manual_seed(seed)
        networks.append(create("legs-deep", 3, 2, dropout=0.0, **OPTIONS, **options).double())
    masks = torch.tensor([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.float64)
    parameters, buffers = stack_module_state(networks)
    buffers = {name: value.clone() for name, value in buffers.items()}
    for module in networks[0].modules():
        if hasattr(module, "validate"):
            module.validate = False

    def run(parameters, buffers, mask):
        arguments = (x.double(), edge_index, None, batch, size)
        return functional_call(networks[0], {**parameters, **buffers}, arguments, {"mask": mask})

    out = vmap(run)(parameters, buffers, masks)
    grads = torch.autograd.grad((out * masks.unsqueeze(-1)).square().sum(), parameters.values())
    for place, (network, mask) in enumerate(zip(networks, masks, strict=True)):
        alone = network(x.double(), edge_index, None, batch, size, mask=mask)
        torch.testing.assert_close(out[place], alone)
        (alone * mask.unsqueeze(-1)).square().sum().backward()
        for (name, parameter), grad in zip(network.named_parameters(), grads, strict=True):
            torch.testing.assert_close(grad[place], parameter.grad, msg=name, atol=1e-9, rtol=1e-7)


def test_edge_features_count(tmp_path):
    x, edge_index, _, batch, size = graphs()
    network = made(edge_dim=2).eval()
    bonds = torch.rand(edge_index.shape[1], 2)
    out = network(x, edge_index, None, batch, size, edge_attr=bonds)
    assert not torch.allclose(out, network(x, edge_index, None, batch, size, edge_attr=0 * bonds))
    with pytest.raises(ValueError, match="edge_attr is missing"):
        network(x, edge_index, None, batch, size)
    network.save(tmp_path / "model")
    loaded = legs.load(tmp_path / "model")
    assert torch.equal(loaded(x, edge_index, None, batch, size, edge_attr=bonds), out)


ABLATIONS = [
    {"wavelets": False},
    {"nonlinearity": "none"},
    {"scales": "learned"},
    {"edge_dim": None},
    {"readout": ("mean",)},
    {"readout": "mean"},
]


@pytest.mark.parametrize("options", ABLATIONS)
def test_parts_can_be_switched_off(options, tmp_path):
    x, edge_index, _, batch, size = graphs()
    check_grid(["legs-deep"], (options,))
    check_options("legs-deep", options)
    network = made(**options).eval()
    out = network(x, edge_index, None, batch, size)
    network.save(tmp_path / "model")
    assert torch.equal(legs.load(tmp_path / "model")(x, edge_index, None, batch, size), out)


def test_options():
    with pytest.raises(ValueError, match='norm must be "batch" or "layer"'):
        made(norm="group")
    with pytest.raises(ValueError, match="readout must be some of"):
        made(readout=["median"])
    with pytest.raises(ValueError, match="did you mean 'num_layers'"):
        create("legs-deep", 3, 2, num_layer=3)
    assert made(scales="learned").convs[0].selection.learned
