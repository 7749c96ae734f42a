"""Filters of learned scales in one kernel, against the functions they stand for."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, vmap

from legs import functional as fn
from legs.kernels import bank
from legs.kernels.fused import mixed_filters


@pytest.fixture(params=["kernel", "loops"])
def device(request):
    """Of a GPU, or where its kernel is emulated; and of the loops for the CPU."""
    return "cpu" if request.param == "loops" else request.getfixturevalue("gpu")


def reference(theta, channels):
    return mixed_filters(fn.select_scales(theta), 0.5, channels)


def logits(device, *shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(*shape, generator=generator, dtype=dtype)).to(device)


@pytest.mark.parametrize("channels, scales, steps", [(2, 5, 16), (1, 1, 1), (3, 7, 70), (2, 70, 3)])
def test_filters_and_gradient_are_those_of_the_reference(device, channels, scales, steps):
    theta = logits(device, scales, steps).requires_grad_()
    given = logits(device, channels, scales, steps, seed=1)
    found, known = bank.learned_filters(theta, channels), reference(theta, channels)
    torch.testing.assert_close(found, known, rtol=0, atol=1e-12)
    ours, theirs = (torch.autograd.grad(f, theta, given)[0] for f in (found, known))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_start_of_training_in_float32(device):
    theta = fn.initial_logits([1, 2, 4, 8, 16], 16).to(device).requires_grad_()
    given = logits(device, 2, 5, 16, dtype=torch.float32)
    found, known = bank.learned_filters(theta, 2), reference(theta, 2)
    torch.testing.assert_close(found, known, rtol=0, atol=1e-6)
    ours, theirs = (torch.autograd.grad(f, theta, given)[0] for f in (found, known))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_extreme_logits_stay_numbers(device):
    theta = torch.tensor([[-1e30, 1e30, 0.0], [1e4, -1e4, 1e4]], device=device).requires_grad_()
    found = bank.learned_filters(theta, 1)
    torch.testing.assert_close(found, reference(theta, 1))
    found.sum().backward()
    assert theta.grad.isfinite().all()


@pytest.mark.parametrize("way", ["inside", "outside"])
def test_many_models_at_once(device, way):
    theta, given = logits(device, 4, 5, 16), logits(device, 2, 5, 16, seed=1)

    def gradients(filters):
        def loss(one):
            return (filters(one, 2) * given).sum()

        if way == "inside":
            return vmap(grad(loss))(theta)
        own = theta.clone().requires_grad_()
        return torch.autograd.grad(vmap(loss)(own).sum(), own)[0]

    ours, theirs = gradients(bank.learned_filters), gradients(reference)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_models_along_another_axis(device):
    theta = logits(device, 5, 4, 16)
    found = vmap(lambda one: bank.learned_filters(one, 2), in_dims=1)(theta)
    torch.testing.assert_close(found, vmap(lambda one: reference(one, 2), in_dims=1)(theta))


def test_where_it_applies(monkeypatch):
    assert bank.applies(torch.empty(70, 100))
    assert not bank.applies(torch.empty(5, 16, device="meta"))
    assert not bank.applies(torch.empty(5, 16, dtype=torch.float16))
    monkeypatch.setattr(bank.cpu, "available", lambda: False)
    assert not bank.applies(torch.empty(5, 16))
    if torch.cuda.is_available():
        assert bank.applies(torch.empty(5, 16, device="cuda"))
        assert not bank.applies(torch.empty(70, 100, device="cuda"))


def test_no_second_derivatives(device):
    theta = logits(device, 2, 3).requires_grad_()
    (first,) = torch.autograd.grad(
        bank.learned_filters(theta, 1).square().sum(), theta, create_graph=True
    )
    with pytest.raises(RuntimeError, match="reference"):
        torch.autograd.grad(first.sum(), theta)
