"""Weighed sums of bands on GPUs, against the formula."""

from __future__ import annotations

import pytest
import torch
from torch.func import vmap

from legs.kernels.gpu.stacked import mix


def formula(x, bands, weight, absolute):
    parts = torch.cat([bands[:, :absolute].abs(), bands[:, absolute:]], dim=1)
    return weight[0] * x + (weight[1:] * parts).sum(1)


@pytest.mark.parametrize(("rows", "channels", "absolute"), [(37, 5, 3), (20, 64, 0), (1, 33, 4)])
def test_values_and_gradients(gpu, rows, channels, absolute):
    shapes = ((rows, channels), (rows, 4, channels), (5, channels))
    inputs = [torch.randn(s, dtype=torch.float64, device=gpu).requires_grad_() for s in shapes]
    out = mix(*inputs, absolute)
    expected = formula(*inputs, absolute)
    torch.testing.assert_close(out, expected)
    change = torch.randn_like(out)
    ours = torch.autograd.grad(out, inputs, change)
    for mine, theirs in zip(ours, torch.autograd.grad(expected, inputs, change), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_mapped_over_models(gpu):
    shapes = ((3, 12, 6), (3, 12, 4, 6), (3, 5, 6))
    inputs = [torch.randn(s, dtype=torch.float64, device=gpu).requires_grad_() for s in shapes]
    outputs = [vmap(lambda *args, f=f: f(*args, 2))(*inputs) for f in (mix, formula)]
    grads = [torch.autograd.grad(out.square().sum(), inputs) for out in outputs]
    for mine, theirs in zip([outputs[0], *grads[0]], [outputs[1], *grads[1]], strict=True):
        torch.testing.assert_close(mine, theirs)
