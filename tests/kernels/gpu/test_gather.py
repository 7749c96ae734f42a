"""Batches of one shape: on a GPU if there is one, else emulated."""

from __future__ import annotations

import pytest
import torch

from legs.training.stacked.replay import FilledBatches
from tests.training import filled as reference
from tests.training.made import made_data

DTYPES = [torch.float64, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_gathered_batches(weighted, dtype, gpu, launched):
    data = made_data(weighted=weighted).to(torch.device(gpu))
    data = data.with_x(data.x.to(dtype), data.feature_names)
    filled = FilledBatches(data, graphs=8)
    for chosen in ([5, 0, 17, 30, 2, 9, 58, 59], [5, 0, 17], [4]):
        index, valid = torch.zeros(2, filled.slots, dtype=torch.long, device=gpu)
        index[: len(chosen)], valid[: len(chosen)] = torch.tensor(chosen, device=gpu), 1
        index[len(chosen) :] = 7  # whatever was there before
        found = filled.gather(index, valid.bool())
        expected = reference.gather(filled, index, valid.bool())
        for a, b in zip(found, expected, strict=True):
            assert a is b is None or a == b if not isinstance(a, torch.Tensor) else a.equal(b)
    assert launched == ["gather"] * 3
