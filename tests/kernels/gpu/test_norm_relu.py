"""Layer norm and ReLU in one pass: on a GPU if there is one, else emulated."""

from __future__ import annotations

import pytest
import torch
from torch.func import vmap
from torch.nn import functional as F

from legs.kernels.gpu import stacked
from tests.kernels.gpu.test_layers import assert_close

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "channels"), [(1, 64), (37, 5), (200, 40)])
def test_norm_relu(rows, channels, dtype, gpu, launched, monkeypatch):
    """Rows that are constant but for a bias, and more rows than warps."""
    monkeypatch.setattr(stacked, "BLOCKS", 12)
    torch.manual_seed(0)
    shapes = [(3, rows, channels), *[(3, channels)] * 3]
    tensors = [torch.randn(shape, dtype=dtype, device=gpu).requires_grad_() for shape in shapes]
    with torch.no_grad():
        tensors[0][0, 0] = 1e3

    def plain(x, bias, weight, shift):
        return F.layer_norm(x + bias, weight.shape, weight, shift, 1e-5).relu()

    outputs = []
    for function in (plain, lambda *args: stacked.norm_relu(*args, 1e-5)):
        out = vmap(function)(*tensors)
        cotangent = torch.linspace(-1, 1, out.numel(), dtype=dtype, device=gpu).view_as(out)
        outputs.append([out.detach(), *torch.autograd.grad(out, tensors, cotangent)])
    assert_close(*outputs, 10 * TOLERANCE[dtype])
    assert launched == ["norm_relu_forward", "norm_relu_backward"]


def test_norm_relu_keeps_nan(gpu):
    x = torch.randn(4, 8, device=gpu)
    x[2, 3] = torch.nan
    ones = torch.ones(8, device=gpu)
    rows = stacked.norm_relu(x, ones, ones, ones, 1e-5).isnan().all(1)
    assert rows.tolist() == [False, False, True, False]


@pytest.mark.parametrize("parts", [1, 4])
def test_rows_in_parts(parts, gpu, monkeypatch):
    monkeypatch.setattr(stacked, "PARTS", parts)
    monkeypatch.setattr(stacked, "PART_ROWS", 2)
    x, weight = torch.randn(13, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    padded = F.pad(x, (0, 0, 0, stacked.padded_rows(x.to(gpu)) - len(x)))
    assert len(padded) % parts == 0
    found = stacked.linear(padded.to(gpu), weight.to(gpu))
    assert_close([found[: len(x)]], [x @ weight.mT], 1e-12)
