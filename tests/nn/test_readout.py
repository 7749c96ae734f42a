"""Readout against PyG's aggregations."""

from __future__ import annotations

import pytest
import torch
from torch.func import vmap
from torch_geometric.nn import MultiAggregation

from legs.nn import Readout


def test_statistics_are_those_of_pyg():
    x = torch.randn(7, 3, dtype=torch.float64)
    batch = torch.tensor([0, 0, 0, 1, 3, 3, 3])  # graph 2 has no nodes
    ours = Readout(["mean", "max", "sum"])(x, batch, 4)
    theirs = MultiAggregation(["mean", "max", "sum"])(x, batch, dim_size=4)
    torch.testing.assert_close(ours, theirs)
    log = Readout(["logsum"])(x, batch, 4)
    torch.testing.assert_close(log, ours[:, 6:].sign() * ours[:, 6:].abs().log1p())
    spread = Readout(["std"])(x, batch, 4)
    torch.testing.assert_close(spread[0], x[:3].std(0, correction=0), atol=2e-6, rtol=0)
    assert spread[1].abs().max() == 0


def test_gradients_are_finite_and_correct():
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([0, 0, 0, 1, 1])
    readout = Readout(["mean", "max", "sum", "logsum", "std"])
    assert torch.autograd.gradcheck(lambda x: readout(x, batch, 2), x)
    constant = torch.ones(5, 2, requires_grad=True)
    readout(constant, batch, 2).sum().backward()
    assert constant.grad.isfinite().all()


def test_maps_over_models():
    x, batch = torch.randn(3, 6, 2), torch.tensor([0, 0, 1, 1, 1, 2])
    readout = Readout(["max", "std", "logsum"])
    mapped = vmap(lambda x: readout(x, batch, 3))(x)
    torch.testing.assert_close(mapped, torch.stack([readout(one, batch, 3) for one in x]))


def test_unknown_statistics():
    with pytest.raises(ValueError, match="readout must be some of mean, max"):
        Readout(["median"])
