"""Merged nodes give the moments of all nodes, and the same gradients: reference and kernels."""

from __future__ import annotations

import pytest
import torch

from legs import functional as fn
from legs.data import GraphDataset, merge_equivalent
from legs.kernels.csr import make_batch
from legs.kernels.gpu import scattering
from legs.kernels.op import mixed_filters
from legs.nn import Moments, Scattering
from tests.graphs import path_graph, random_graph, ring

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FAMILIES = ("small", "any")  # graphs that fit into a block's shared memory, and graphs of any size


def star(leaves):
    ends = torch.arange(1, leaves + 1)
    edges = torch.stack([torch.zeros_like(ends), ends])
    return torch.cat([edges, edges.flip(0)], 1)


def alike_graphs(dtype=torch.float64):
    """Graphs of which some nodes are alike: hubs, cliques, a ring, lone nodes; and a random one."""
    generator = torch.Generator().manual_seed(1)
    clique = (1 - torch.eye(9)).nonzero().T
    two = torch.cat([clique, clique + 8], 1)  # cliques that share a node
    lone = torch.empty(2, 0, dtype=torch.long)
    shapes = [star(40), two, ring(6).edge_index, lone, random_graph(8, generator).edge_index]
    shapes.append(torch.cat([star(70), path_graph(3).edge_index + 71], 1))
    sizes = [41, 17, 6, 5, 8, 74]
    ptr = torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()])
    edges = torch.cat([e + start for e, start in zip(shapes, ptr, strict=False)], 1)
    x = torch.randint(3, (int(ptr[-1]), 2), generator=generator).to(dtype)
    x[ptr[2] : ptr[3]] = 1  # a constant on a regular graph
    data = GraphDataset.from_edges(x, ptr, edges)
    merged, multiplicity = merge_equivalent(data)
    assert merged.num_nodes < data.num_nodes / 3
    return data.whole(), merged.whole(), multiplicity


def walk_powers(x, edge_index, weight, steps, multiplicity=None):
    times = torch.ones(len(x), 1, dtype=x.dtype)
    if multiplicity is not None:
        x, weight, times = fn.masses(x, edge_index, weight, multiplicity)
    walk = fn.random_walk(edge_index, weight, len(x), x.dtype)
    return fn.walk_powers(x, walk, steps) / times.unsqueeze(-1)


def test_walk_powers():
    whole, merged, multiplicity = alike_graphs()
    full = walk_powers(*whole[:3], 5)
    few = walk_powers(*merged[:3], 5, multiplicity)
    mean = fn.graph_mean(full, whole.batch, whole.batch_size)
    assert torch.allclose(fn.graph_mean(few, merged.batch, whole.batch_size, multiplicity), mean)


@pytest.mark.parametrize("kind", ["normalized", "mean", "sum"])
@pytest.mark.parametrize("with_powers", [False, True])
def test_reference(kind, with_powers):
    whole, merged, multiplicity = alike_graphs()
    options = {"num_scales": 4, "steps": 6, "learn_laziness": True, "backend": "reference"}
    module = Scattering(2, aggr=Moments(kind), **options).double()
    expected = module(*whole[:5])
    powers = walk_powers(*merged[:3], 6, multiplicity) if with_powers else None
    found = module(*merged[:5], powers=powers, multiplicity=multiplicity)
    assert torch.allclose(found, expected, atol=1e-9, rtol=1e-9)
    cotangent = torch.randn(expected.shape, dtype=torch.float64)
    wanted = torch.autograd.grad((expected * cotangent).sum(), list(module.parameters()))
    got = torch.autograd.grad((found * cotangent).sum(), list(module.parameters()))
    for one, other in zip(got, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-9, rtol=1e-8)


def test_other_aggregations_are_refused():
    _, merged, multiplicity = alike_graphs()
    with pytest.raises(ValueError, match="moments only"):
        Scattering(2, aggr="max").double()(*merged[:5], multiplicity=multiplicity)


def expected_of(whole, models, policy="increasing"):
    """Of some models: filters, what they hang on, moments of all nodes, and a gradient of those."""
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(models, 3, 5, dtype=torch.float64, generator=generator).requires_grad_()
    filters = torch.stack([mixed_filters(fn.select_scales(t), 0.6, 2) for t in theta])
    walk = fn.random_walk(*whole[1:3], len(whole.x), torch.float64)
    energy = fn.signal_energy(whole.x, walk, *whole[3:5]).unsqueeze(1)
    scattered = [
        fn.scattering(whole.x, walk, 0.6, fn.select_scales(t), policy=policy) for t in theta
    ]
    sizes = [torch.cat([z[:, :1], z[:, 1:].abs()], dim=1) for z in scattered]
    expected = torch.stack([fn.moments(z, *whole[3:5], energy=energy) for z in sizes])
    cotangent = torch.randn(expected.shape, dtype=torch.float64, generator=generator)
    return filters, theta, expected, cotangent


def merged_batch(merged, multiplicity, with_powers, **place):
    """What the kernels take."""
    powers = walk_powers(*merged[:3], 5, multiplicity).to(**place) if with_powers else None
    return make_batch(
        merged.x.to(**place),
        merged.edge_index.to(place["device"]),
        merged.edge_weight.to(**place),
        merged.batch.to(place["device"]),
        merged.batch_size,
        powers,
        multiplicity.to(**place),
        validate=False,
    )


def compare(found, grad, filters, theta, expected, cotangent):
    """Moments and gradients that the kernels found, with those of all nodes."""
    tolerance = 1e-9 if found.dtype == torch.float64 else 1e-3
    error = (found.cpu().double() - expected).abs() / expected.abs().clamp_min(1)
    assert error.max() < tolerance
    (wanted,) = torch.autograd.grad((expected * cotangent).sum(), theta, retain_graph=True)
    (got,) = torch.autograd.grad(filters, theta, grad.cpu().double(), retain_graph=True)
    assert ((got - wanted).abs() / wanted.abs().max().clamp_min(1)).max() < tolerance


@pytest.mark.parametrize(
    "dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("with_powers", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_gpu(gpu, monkeypatch, family, with_powers, dtype):
    whole, merged, multiplicity = alike_graphs()
    filters, theta, expected, cotangent = expected_of(whole, 2)
    paths = Scattering(2, num_scales=3, steps=5).out_channels
    assert expected[0].numel() == len(whole.batch.unique()) * paths
    if family == "any":
        monkeypatch.setattr(scattering, "MAX_THREADS", 0)
    place = {"device": DEVICE, "dtype": dtype}
    given = merged_batch(merged, multiplicity, with_powers, **place)
    on_device = filters.detach().to(**place)
    found = scattering.forward(given, on_device)
    grad = scattering.backward(given, on_device, cotangent.to(**place), found)
    compare(found, grad, filters, theta, expected, cotangent)
