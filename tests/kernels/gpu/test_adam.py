"""Adam for stacks of models: on a GPU if there is one, else emulated."""

from __future__ import annotations

import pytest
import torch

from legs.training.stacked.adam import StackedAdam

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_adam(dtype, gpu, launched, use):
    """More than a block of numbers, models at rest, and models that are let go."""
    shapes = {"a": (3, 40, 31), "b": (3, 3), "c": (3,)}
    torch.manual_seed(0)
    start = {name: torch.randn(shape, dtype=dtype).to(gpu) for name, shape in shapes.items()}
    lr = torch.tensor([1e-3, 1e-2, 1e-1], dtype=dtype).to(gpu)
    active = torch.tensor([[1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=torch.bool).to(gpu)
    found = []
    for choice in ("reference", "auto"):
        with use(choice):
            adam = StackedAdam(start, lr, weight_decay=0.01)
            for number, moving in enumerate(active):
                if number == 2:
                    kept = torch.tensor([0, 2]).to(gpu)
                    adam.keep(kept)
                moving = moving if number < 2 else moving[kept]
                parts = adam.parameters.values()
                adam.step(sum((part - 1).square().sum() for part in parts), moving)
        found.append([*adam.parameters.values(), adam.first_moments, adam.second_moments])
    assert launched == ["adam"] * 4
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
