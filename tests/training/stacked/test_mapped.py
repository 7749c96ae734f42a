"""Many networks at once answer as one after another, whichever graphs each is asked for."""

from __future__ import annotations

import pytest
import torch

from legs.kernels import csr
from legs.models import available
from legs.training.inputs import Inputs, predict
from legs.training.stacked import mapped
from tests.training.stacked.test_fast import ensembles
from tests.training.stacked.test_trainer import made_data, members
from tests.training.stacked.together import predict_stacked

CPU = torch.device("cpu")


def agree(networks, inputs, parts):
    found = predict_stacked(networks, inputs, parts)
    for network, part, out in zip(networks, parts, found, strict=True):
        expected = predict(inputs, network, torch.as_tensor(part))
        assert not out.requires_grad
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", available())
def test_as_one_after_another(name, monkeypatch):
    """Unsorted graphs, two networks with the same ones, in parts."""
    monkeypatch.setattr(mapped, "ROWS_AT_ONCE", 100)
    data = made_data()
    networks = [member.network.eval() for member in members(data, name, count=3)]
    parts = [[30, 2, 17, 9, 39], torch.tensor([5]), [39, 9, 17, 2, 30]]
    inputs = Inputs(data, networks[0], CPU)
    before = [{k: v.clone() for k, v in n.state_dict().items()} for n in networks]
    agree(networks, inputs, parts)
    for network, state in zip(networks, before, strict=True):
        assert all(v.equal(state[k]) for k, v in network.state_dict().items())


def test_faster_products_too(monkeypatch):
    data = made_data()
    networks = [member.network.eval() for member in members(data, "gcn", count=2)]
    inputs = Inputs(data, networks[0], CPU)
    parts = [[1, 2, 3], [4, 5]]
    expected = predict_stacked(networks, inputs, parts)
    monkeypatch.setattr(csr, "MIN_WORK", 0)
    found = predict_stacked(networks, inputs, parts)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def test_ensembles_with_features_of_their_own():
    data = made_data()
    networks = [member.network.eval() for member in ensembles(data)]
    inputs = Inputs(data, networks[0], CPU, keep=False)
    inputs.keep_own_features(networks)
    agree(networks, inputs, [[7, 3], [3, 7, 20], [3, 7]])
