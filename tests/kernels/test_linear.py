"""Linear layers whose weights get their gradients in parts are linear layers."""

import pytest
import torch
from torch.func import vmap

from legs.kernels import linear as module
from legs.kernels import messages_cuda
from legs.kernels.linear import linear, parts_of, weight_gradient

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NUMBERS = {"dtype": torch.float64, "device": DEVICE}


@pytest.fixture(autouse=True)
def everywhere(monkeypatch):
    """Taken on the CPU too, and with few rows."""
    monkeypatch.setattr(messages_cuda, "applies", lambda x: True)
    monkeypatch.setattr(module, "LEAST_ROWS", 4)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rows", [64, 63])
def test_many_models(rows, shared):
    z = torch.randn(*([] if shared else [3]), rows, 5, **NUMBERS, requires_grad=True)
    weight = torch.randn(3, 7, 5, **NUMBERS, requires_grad=True)
    assert parts_of(3, rows, 7, 5) == (16 if rows == 64 else 1)
    expected = z @ weight.mT
    found = vmap(linear, in_dims=(None if shared else 0, 0))(z, weight)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    cotangent = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * cotangent).sum(), (z, weight))
    got = torch.autograd.grad((found * cotangent).sum(), (z, weight))
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_one_model_and_second_derivatives():
    z = torch.randn(32, 5, **NUMBERS, requires_grad=True)
    weight = torch.randn(4, 5, **NUMBERS, requires_grad=True)
    assert torch.autograd.gradcheck(linear, (z, weight))
    assert torch.autograd.gradgradcheck(linear, (z, weight))


def test_columns_of_wider_matrices():
    change, seen = torch.randn(2, 32, 12, **NUMBERS), torch.randn(2, 32, 9, **NUMBERS)
    found = weight_gradient(change[..., 4:8], seen[..., :5])
    expected = change[..., 4:8].mT @ seen[..., :5]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
