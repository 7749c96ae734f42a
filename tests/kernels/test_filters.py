"""Filters of learned scales by kernels, against the functions they stand for."""

from __future__ import annotations

import pytest
import torch

from legs import functional as fn
from legs.kernels import cpu
from legs.kernels.gpu import filters as gpu_filters
from legs.kernels.op import mixed_filters


@pytest.fixture(params=["cuda", "cpu"])
def kernels(request):
    """The functions, and their device; those for GPUs are emulated where there is none."""
    if request.param == "cuda":
        return gpu_filters, request.getfixturevalue("gpu")
    if not cpu.available():
        pytest.skip("numba is not installed")
    from legs.kernels.cpu import filters

    return filters, "cpu"


def reference(theta, channels):
    return torch.stack([mixed_filters(fn.select_scales(t), 0.5, channels) for t in theta])


def logits(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(*shape, generator=generator, dtype=dtype)


def compare(kernels, theta, channels, grad, **tolerance):
    (module, device), theta = kernels, theta.requires_grad_()
    expected = reference(theta, channels)
    on_device = theta.detach().to(device)
    found = module.forward(on_device, channels)
    torch.testing.assert_close(found.cpu(), expected.detach(), **tolerance)
    (expected_grad,) = torch.autograd.grad(expected, theta, grad)
    found_grad = module.backward(on_device, grad.to(device))
    torch.testing.assert_close(found_grad.cpu(), expected_grad, **tolerance)


@pytest.mark.parametrize("channels, scales, steps", [(2, 5, 16), (1, 1, 1), (3, 7, 70), (2, 70, 3)])
def test_filters_and_gradient_are_those_of_the_reference(kernels, channels, scales, steps):
    grad = logits(4, channels, scales, steps, seed=1)
    compare(kernels, logits(4, scales, steps), channels, grad, rtol=1e-10, atol=1e-12)


def test_start_of_training_in_float32(kernels):
    theta = fn.initial_logits([1, 2, 4, 8, 16], 16).unsqueeze(0)
    grad = logits(1, 2, 5, 16, dtype=torch.float32)
    compare(kernels, theta, 2, grad, rtol=1e-4, atol=1e-6)


def test_extreme_logits_stay_finite(kernels):
    theta = torch.tensor([[[-1e30, 1e30, 0.0], [1e4, -1e4, 1e4]]])
    compare(kernels, theta, 1, torch.ones(1, 1, 2, 3), rtol=1e-5, atol=1e-6)


def test_strided_inputs(kernels):
    grad = logits(4, 5, 2, 16).transpose(1, 2)
    compare(kernels, logits(4, 5, 16), 2, grad, rtol=1e-10, atol=1e-12)
    module, device = kernels
    wide = logits(4, 16, 5).to(device).transpose(1, 2)
    assert torch.equal(module.forward(wide, 2), module.forward(wide.contiguous(), 2))
