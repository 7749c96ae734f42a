"""WaveletConv: its formula, backends, gradients, symmetry, and PyG's conventions."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
import torch
from torch_geometric.nn import Sequential

from legs.nn import WaveletConv
from tests.kernels.test_bank import dense

OPTIONS = [
    {},
    {"scales": "learned", "num_scales": 3},
    {"scales": [1, 3], "lowpass": False, "nonlinearity": "none"},
    {"operator": "walk", "nonlinearity": "relu-pair"},
    {"operator": "symmetric", "nonlinearity": torch.tanh},
    {"mixing": "full"},
    {"wavelets": False},
    {"wavelets": False, "scales": "learned", "num_scales": 3, "mixing": "full"},
]


def graph(nodes=12, weighted=False, seed=0):
    source = torch.Generator().manual_seed(seed)
    upper = (torch.rand(nodes, nodes, generator=source) < 0.3).triu(1)
    upper[0, 1:] = False  # a node without edges
    edge_index = (upper | upper.T).nonzero().T
    full = torch.rand(nodes, nodes, generator=source, dtype=torch.float64) + 0.1
    weight = (full + full.T)[edge_index[0], edge_index[1]] if weighted else None
    return torch.randn(nodes, 3, generator=source, dtype=torch.float64), edge_index, weight


def made(**options):
    torch.manual_seed(0)
    return WaveletConv(3, 4, **options).double()


def by_hand(conv, x, edge_index, weight):
    """The formula, with dense powers."""
    matrix = dense(edge_index, weight, len(x), conv.operator)
    weights = conv.selection.fixed if not conv.selection.learned else conv.selection()
    powers = [torch.matrix_power(matrix, t) @ x for t in range(conv.selection.steps + 1)]
    selected = torch.diff(torch.cat([weights, torch.ones(len(weights), 1)], 1), dim=1)
    at_scale = [x, *(sum(f * p for f, p in zip(row, powers[1:], strict=True)) for row in selected)]
    wavelets = torch.stack([a - b for a, b in pairwise(at_scale)], dim=1)
    kinds = {
        "abs": [wavelets.abs()],
        "none": [wavelets],
        "relu-pair": [wavelets.relu(), (-wavelets).relu()],
    }
    parts = kinds.get(conv.nonlinearity) or [conv.nonlinearity(wavelets)]
    parts = parts if conv.wavelets else []
    low = [at_scale[-1].unsqueeze(1)] * conv.lowpass
    bands = torch.cat([x.unsqueeze(1), *parts, *low], dim=1)
    if conv.band_weight is None:
        return conv.lin(bands.flatten(1))
    return conv.lin(torch.einsum("nbc,bc->nc", bands, conv.band_weight))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
def test_formula(options, weighted):
    x, edge_index, weight = graph(weighted=weighted)
    for backend in ("reference", "fused"):
        conv = made(**options, backend=backend)
        torch.testing.assert_close(
            conv(x, edge_index, weight), by_hand(conv, x, edge_index, weight)
        )


def test_batches_are_filtered_graph_by_graph():
    """With and without a batch vector."""
    one, two = graph(), graph(seed=1)
    edge_index = torch.cat([one[1], two[1] + len(one[0])], dim=1)
    batch = torch.cat([torch.zeros(12, dtype=torch.long), torch.ones(12, dtype=torch.long)])
    conv, x = made(backend="fused"), torch.cat([one[0], two[0]])
    expected = torch.cat([conv(*one[:2]), conv(*two[:2])])
    torch.testing.assert_close(conv(x, edge_index), expected)
    torch.testing.assert_close(conv(x, edge_index, batch=batch), expected)


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_gradients(backend):
    x, edge_index, weight = graph(nodes=7, weighted=True)
    conv = made(scales="learned", num_scales=2, nonlinearity="none", steps=4, backend=backend)
    names = [name for name, _ in conv.named_parameters()]

    def run(x, *parameters):
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(conv, values, (x, edge_index, weight))

    inputs = [x.requires_grad_(), *(p.detach().requires_grad_() for p in conv.parameters())]
    assert torch.autograd.gradcheck(run, inputs)


def test_edge_weights_get_gradients():
    x, edge_index, weight = graph(weighted=True)
    weight.requires_grad_()
    made(validate=False)(x, edge_index, weight).sum().backward()
    assert weight.grad.abs().max() > 0


def test_renumbered_nodes():
    x, edge_index, weight = graph(weighted=True)
    order = torch.randperm(len(x))
    place = order.argsort()
    conv = made()
    torch.testing.assert_close(
        conv(x[order], place[edge_index], weight), conv(x, edge_index, weight)[order]
    )


def test_bonds_are_one_more_band():
    x, edge_index, _ = graph()
    bonds = torch.rand(edge_index.shape[1], 5, dtype=torch.float64)
    conv = made(edge_dim=5)
    messages = torch.relu(x[edge_index[0]] + conv.lin_edge(bonds))
    expected = torch.zeros_like(x).index_add(0, edge_index[1], messages)
    plain = made(edge_dim=5)
    with torch.no_grad():
        plain.band_weight[-1] = 0
    change = conv(x, edge_index, edge_attr=bonds) - plain(x, edge_index, edge_attr=bonds)
    torch.testing.assert_close(change, (expected * conv.band_weight[-1]) @ conv.lin.weight.T)
    assert made(edge_dim=5, mixing="full")(x, edge_index, edge_attr=bonds).shape == (12, 4)
    with pytest.raises(ValueError, match="edge_attr is missing"):
        conv(x, edge_index)


def test_conventions_of_pyg():
    x, edge_index, _ = graph()
    model = Sequential(
        "x, edge_index",
        [(WaveletConv(3, 8), "x, edge_index -> x"), (WaveletConv(8, 2), "x, edge_index -> x")],
    ).double()
    assert model(x, edge_index).shape == (12, 2)
    lazy = WaveletConv(-1, 2)
    assert lazy(x.float(), edge_index).shape == (12, 2)
    conv = WaveletConv(3, 2, scales="learned")
    before = copy.deepcopy(conv.state_dict())
    conv.selection.theta.data += 1
    conv.reset_parameters()
    assert torch.equal(conv.state_dict()["selection.theta"], before["selection.theta"])
    assert (
        repr(WaveletConv(3, 2))
        == "WaveletConv(3, 2, ScaleSelection(scales=(1, 2, 4, 8, 16), steps=16))"
    )


def test_wrong_arguments():
    x, edge_index, _ = graph()
    for options, message in (
        ({"operator": "laplacian"}, "operator must be one of"),
        ({"scales": "infogain"}, "as a list"),
        ({"nonlinearity": "sin"}, "nonlinearity must be"),
        ({"mixing": "some"}, "mixing must be"),
        ({"backend": "quick"}, "backend must be"),
        ({"wavelets": False, "lowpass": False}, "there are no bands"),
    ):
        with pytest.raises(ValueError, match=message):
            made(**options)
    with pytest.raises(ValueError, match="in_channels must be given"):
        WaveletConv(-1, 2, edge_dim=3)
    with pytest.raises(ValueError, match="directed"):
        made()(x, edge_index[:, :1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    x, edge_index, _ = graph()
    out = made(backend="fused").to(dtype)(x.to(dtype), edge_index)
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), made()(x, edge_index), rtol=0, atol=0.1)
