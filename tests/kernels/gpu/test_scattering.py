"""The CUDA kernels against the reference: on a GPU if there is one, else emulated."""

from __future__ import annotations

import pytest
import torch

from legs import functional as fn
from legs.kernels.csr import make_batch
from legs.kernels.gpu import scattering
from legs.kernels.op import mixed_filters
from tests.graphs import path_graph, random_graph, ring
from tests.kernels.scattered import Case, clear_of_kinks, dense_coefficients, moments, worst

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
pytestmark = pytest.mark.usefixtures("gpu")


def graphs(sizes, channels, weighted, seed=0):
    """Random graphs, rings (constant signal on the first), paths, lone nodes.

    A size of 1000 and more stands for a hub with so many less 1000 leaves, one of 2000 and more for
    a complete graph.
    """
    generator = torch.Generator().manual_seed(seed)
    parts, weights, signals, batch, start = [], [], [], [], 0
    for number, size in enumerate(sizes):
        kind, size = (number % 3, size) if size < 1000 else (2 + size // 1000, size % 1000)
        if kind == 3:
            leaves = torch.arange(1, size)
            edges = torch.stack([torch.zeros_like(leaves), leaves])
            edges = torch.cat([edges, edges.flip(0)], 1)
        elif kind == 4:
            edges = (1 - torch.eye(size)).nonzero().T
        elif size < 3:
            edges = torch.empty(2, 0, dtype=torch.long)
        elif kind == 0:
            edges = ring(size).edge_index
        elif kind == 1:
            edges = random_graph(size, generator).edge_index
        else:
            edges = path_graph(size).edge_index
        low, high = edges.min(0).values, edges.max(0).values
        weights.append(0.5 + ((low * 31 + high * 17) % 11) / 10.0)
        x = torch.randn(size, channels, generator=generator, dtype=torch.float64)
        signals.append(torch.ones_like(x) if number == 0 else x)
        parts.append(edges + start)
        batch += [number] * size
        start += size
    x, batch = torch.cat(signals), torch.tensor(batch, dtype=torch.long)
    weight = torch.cat(weights).double() if weighted else None
    return x, torch.cat(parts, 1), weight, batch


def reference(x, edge_index, weight, batch, count, scales, laziness, policy):
    walk = fn.random_walk(edge_index, weight, len(x), x.dtype)
    coefficients = fn.scattering(x, walk, laziness, scales, policy=policy)
    sizes = torch.cat([coefficients[:, :1], coefficients[:, 1:].abs()], dim=1)
    energy = fn.signal_energy(x, walk, batch, count).unsqueeze(1)
    return fn.moments(sizes, batch, count, energy=energy)


CASES = [
    # sizes, channels, scales, steps, policy, weighted, models, powers
    ([5, 9, 1, 12, 7, 0, 3], 2, 5, 16, "increasing", False, 3, True),
    ([5, 9, 1, 12, 7], 2, 3, 7, "all", True, 2, False),
    ([40, 3, 17, 4, 4, 4], 1, 4, 6, "increasing", True, 1, False),
    ([30, 200, 6, 5, 5, 5, 5, 5], 2, 3, 4, "increasing", False, 2, True),
    ([6, 7, 8], 5, 2, 2, "all", False, 9, True),
    ([6, 7, 8], 3, 2, 1, "all", True, 1, False),
    ([5, 1050, 2040, 8, 1100, 7], 2, 3, 4, "increasing", True, 2, False),  # hubs, complete graphs
]


def cases():
    """All on a GPU; the emulation compiles every one anew, so most of them count as long there."""
    for number, case in enumerate(CASES):
        for dtype in (torch.float64, torch.float32):
            quick = GPU or (number == 1 and dtype == torch.float64)
            for family in ("small", "any"):
                marks = () if quick else (pytest.mark.long,)
                yield pytest.param(
                    case, dtype, family, marks=marks, id=f"{number}-{dtype}-{family}"
                )


@pytest.mark.parametrize(("case", "dtype", "family"), list(cases()))
def test_values_and_gradients(case, dtype, family, monkeypatch):
    sizes, channels, scales, steps, policy, weighted, models, with_powers = case
    monkeypatch.setattr(scattering, "MIN_BLOCKS", 2)  # some blocks do several models
    x, edge_index, weight, batch = graphs(sizes, channels, weighted)
    generator = torch.Generator().manual_seed(1)
    if scales == 2 and steps == 1:
        theta = torch.zeros(models, 2, 1, dtype=torch.float64)
    else:
        theta = torch.randn(models, scales, steps, dtype=torch.float64, generator=generator)
    theta.requires_grad_()
    count = len(sizes)
    expected = torch.stack(
        [
            reference(x, edge_index, weight, batch, count, fn.select_scales(t), 0.6, policy)
            for t in theta
        ]
    )
    cotangent = torch.randn(expected.shape, dtype=torch.float64, generator=generator)
    (wanted,) = torch.autograd.grad((expected * cotangent).sum(), theta)

    if family == "any":
        monkeypatch.setattr(scattering, "MAX_THREADS", 0)
    walk = fn.random_walk(edge_index, weight, len(x), x.dtype)
    powers = fn.walk_powers(x, walk, steps).to(DEVICE, dtype) if with_powers else None
    place = {"device": DEVICE, "dtype": dtype}
    given = make_batch(
        x.to(**place),
        edge_index.to(DEVICE),
        None if weight is None else weight.to(**place),
        batch.to(DEVICE),
        count,
        powers,
    )
    filters = torch.stack([mixed_filters(fn.select_scales(t), 0.6, channels) for t in theta])
    on_device = filters.detach().to(**place)
    found = scattering.forward(given, on_device, policy)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    error = (found.cpu().double() - expected).abs() / expected.abs().clamp_min(1)
    assert error.max() < tolerance
    grad = (
        scattering.backward(given, on_device, cotangent.to(**place), found, policy).cpu().double()
    )
    (got,) = torch.autograd.grad(filters, theta, grad)
    assert ((got - wanted).abs() / wanted.abs().max().clamp_min(1)).max() < tolerance


@pytest.mark.long
def test_the_same_bits_every_time():
    x, edge_index, weight, batch = graphs([9, 30, 5], 2, True)
    x, weight = x.float().to(DEVICE), weight.float().to(DEVICE)
    given = make_batch(x, edge_index.to(DEVICE), weight, batch.to(DEVICE), 3)
    filters = torch.randn(4, 2, 3, 5, device=DEVICE)
    found = [scattering.forward(given, filters) for _ in range(2)]
    assert found[0].equal(found[1])
    grad = torch.randn_like(found[0])
    first, second = (scattering.backward(given, filters, grad, found[0]) for _ in range(2))
    assert first.equal(second)


def test_no_nan_on_silence():
    x, edge_index, _, batch = graphs([9, 4, 1], 2, False)
    given = make_batch(torch.zeros_like(x).float(), edge_index, None, batch, 3)
    given = type(given)(*(t.to(DEVICE) if isinstance(t, torch.Tensor) else t for t in given))
    filters = torch.rand(1, 2, 3, 5, device=DEVICE)
    found = scattering.forward(given, filters)
    assert (found == 0).all()
    grad = scattering.backward(given, filters, torch.ones_like(found), found)
    assert (grad == 0).all()


@pytest.mark.parametrize("operator", ["row", "symmetric"])
@pytest.mark.parametrize("small", [True, False])
def test_other_operators(operator, small, monkeypatch):
    if not small:
        monkeypatch.setattr(scattering, "MAX_THREADS", 0)
    case = Case(*graphs([9, 7, 4, 1], 2, True), 4)
    case = case._replace(x=torch.randn(case.x.shape, dtype=torch.float64))
    filters = torch.randn(1, 2, 3, 5, dtype=torch.float64).requires_grad_()
    wanted = moments(case, dense_coefficients(case, operator, filters[0]), operator).unsqueeze(0)
    grad = torch.randn_like(wanted) * clear_of_kinks(case, filters)
    (wanted_grad,) = torch.autograd.grad(wanted, filters, grad)
    place = [t.to(DEVICE) if isinstance(t, torch.Tensor) else t for t in case]
    batch, on_device = make_batch(*place, operator=operator), filters.detach().to(DEVICE)
    found = scattering.forward(batch, on_device)
    change = scattering.backward(batch, on_device, grad.to(DEVICE), found)
    assert worst(found.cpu(), wanted.detach()) < 1e-9
    assert worst(change.cpu(), wanted_grad) < 1e-9
