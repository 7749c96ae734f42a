"""The CPU kernels on real graphs, against :mod:`legs.functional` in the same precision."""

from __future__ import annotations

import pytest
import torch

from legs import functional as fn
from legs.data import load
from legs.kernels import cpu
from tests.kernels.scattered import Case, moments, worst

pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("one_thread")

DTYPES = {torch.float32: 1e-3, torch.float64: 1e-9}


def case_of(name: str, count: int) -> Case:
    data = load(name)
    batch = data.batch(torch.linspace(0, len(data) - 1, count).long())
    return Case(batch.x, batch.edge_index, None, batch.batch, count)


def mixture(laziness: float, steps: int) -> torch.Tensor:
    """How powers of a lazy walk are mixed from those of another, ``[steps, steps]``."""
    rows = [torch.zeros(steps, dtype=torch.float64)]
    rows[0][0] = 1 - laziness
    for _ in range(steps - 1):
        rows.append(laziness * rows[-1] + (1 - laziness) * rows[-1].roll(1))
        rows[-1][0] = laziness * rows[-2][0]
    return torch.stack(rows)


def compare(case: Case, laziness: float, basis: float, tolerance: float) -> None:
    """Values, and the gradient of the scales relative to its largest entry."""
    channels = case.x.shape[1]
    theta = fn.initial_logits(fn.default_scales(5, 16), 16).to(case.x.dtype)
    theta = (theta + 0.3 * torch.randn_like(theta)).requires_grad_()
    cumulative = fn.select_scales(theta)
    wanted = moments(case, fn.scattering(case.x, case.walk(), laziness, cumulative)).unsqueeze(0)
    # P_α is a lazy walk of P_b again, of laziness (α - b) / (1 - b).
    mixed = mixture((laziness - basis) / (1 - basis), 16).to(case.x.dtype)
    filters = (fn.wavelet_weights(cumulative) @ mixed).expand(1, channels, -1, -1)
    powers = case.powers(16, basis)
    for given in (powers, None):
        found = cpu.forward(case.x, given, *case.compressed(), filters, "increasing", basis)
        assert worst(found, wanted.detach()) < tolerance
    grad = torch.randn_like(wanted) / case.num_graphs
    (wanted_grad,) = torch.autograd.grad(wanted, theta, grad, retain_graph=True)
    found = cpu.backward(case.x, powers, *case.compressed(), filters, grad, "increasing", basis)
    (found_grad,) = torch.autograd.grad(filters, theta, found)
    assert (found_grad - wanted_grad).abs().max() < tolerance * wanted_grad.abs().max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["NCI1", "PROTEINS"])
@pytest.mark.parametrize("basis", [0.0, 0.5])
def test_molecules_and_proteins(legs_data, monkeypatch, name, dtype, basis):
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    compare(case_of(name, 128).to(dtype), 0.5, basis, DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_graphs_with_hubs(legs_data, monkeypatch, dtype):
    """In powers of the half-lazy walk; those of the walk itself are good for 1e-1 in float32."""
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    compare(case_of("REDDIT-BINARY", 40).to(dtype), 0.5, 0.5, DTYPES[dtype])
