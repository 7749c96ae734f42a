"""Stacks on merged nodes train to the weights of stacks on all nodes."""

import pytest
import torch

from legs.training import inputs
from legs.training.inputs import Inputs
from legs.training.options import TrainingOptions
from legs.training.stacked.trainer import train_stack
from tests.backends import prefer
from tests.training.stacked.test_trainer import made_data, members
from tests.training.stacked.together import predict_stacked

SCATTERING = ["legs-fcn", "legs-rbf"]
NAMES = [*SCATTERING, "gcn", "graphsage", "gat", "gin", "snowball"]
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_weights(name, monkeypatch):
    """On a GPU steps are recorded, in batches that are filled up."""
    data = made_data()
    data = data.with_x((data.x > 0.97).double())  # few values: many nodes are alike
    options = TrainingOptions(
        batch_size=16, max_epochs=8, validate_every=4, patience=8, precision="float64"
    )
    found = []
    for least in (1e9, 1.0):
        monkeypatch.setattr(inputs, "MERGED_FROM", least)
        # The kernels for CPUs are tested by themselves: to compile them takes long.
        with prefer("reference" if name in SCATTERING and DEVICE.type == "cpu" else "fused"):
            given = members(data, name, count=2)
            reader = Inputs(data, given[0].network, DEVICE)
            assert reader.merged == (least == 1) == (reader.data.num_nodes < 0.9 * data.num_nodes)
            train_stack(given, reader, data.y.to(DEVICE), options)
            networks = [member.network.to(DEVICE) for member in given]
            parts = [member.split.test for member in given]
            outs = predict_stacked(networks, reader, parts)
        found.append([*(dict(n.state_dict()) for n in networks), dict(enumerate(outs))])
    for a, b in zip(*found, strict=True):
        for key, value in a.items():
            torch.testing.assert_close(value, b[key], rtol=0, atol=1e-8)
