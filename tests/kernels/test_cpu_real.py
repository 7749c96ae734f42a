"""The CPU kernels on real graphs, against :mod:`legs.functional` in the same precision."""

from __future__ import annotations

import pytest
import torch

from legs import functional as fn
from legs.data import load
from legs.kernels.op import mixed_filters
from tests.kernels.scattered import Case, moments, worst

pytest.importorskip("numba")

from legs.kernels.cpu import scattering

pytestmark = pytest.mark.usefixtures("one_thread")

DTYPES = {torch.float32: 1e-3, torch.float64: 1e-9}


def case_of(name: str, count: int) -> Case:
    data = load(name, features="structure")
    batch = data.batch(torch.linspace(0, len(data) - 1, count).long())
    return Case(batch.x, batch.edge_index, None, batch.batch, count)


def compare(case: Case, laziness: float, tolerance: float) -> None:
    """Values, and the gradient of the scales relative to its largest entry."""
    channels = case.x.shape[1]
    theta = fn.initial_logits(fn.default_scales(5, 16), 16).to(case.x.dtype)
    theta = (theta + 0.3 * torch.randn_like(theta)).requires_grad_()
    cumulative = fn.select_scales(theta)
    wanted = moments(case, fn.scattering(case.x, case.walk(), laziness, cumulative)).unsqueeze(0)
    filters = mixed_filters(cumulative, laziness, channels).unsqueeze(0)
    for batch in (case.prepared(), case.prepared(16)):
        found = scattering.forward(batch, filters, "increasing")
        assert worst(found, wanted.detach()) < tolerance
    grad = torch.randn_like(wanted) / case.num_graphs
    (wanted_grad,) = torch.autograd.grad(wanted, theta, grad, retain_graph=True)
    found_grad = scattering.backward(batch, filters, grad, found, "increasing")
    (found_grad,) = torch.autograd.grad(filters, theta, found_grad)
    assert (found_grad - wanted_grad).abs().max() < tolerance * wanted_grad.abs().max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["NCI1", "PROTEINS"])
@pytest.mark.parametrize("laziness", [0.5, 0.7])
def test_molecules_and_proteins(legs_data, monkeypatch, name, dtype, laziness):
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    compare(case_of(name, 128).to(dtype), laziness, DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_graphs_with_hubs(legs_data, monkeypatch, dtype):
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    compare(case_of("REDDIT-BINARY", 40).to(dtype), 0.5, DTYPES[dtype])
