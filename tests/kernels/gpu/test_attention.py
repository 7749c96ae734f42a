"""Attention over neighbors: on a GPU if there is one, else emulated."""

from __future__ import annotations

import torch

from legs.models import create
from tests.kernels.gpu.test_layers import assert_close
from tests.models.test_gnn import by_pyg


def test_attention_over_many_neighbors(gpu, launched):
    """A hub whose neighbors are more than a warp has lanes, in single precision."""
    network = create("gat", 2, 3, num_layers=1, hidden_channels=16)
    hub = torch.arange(1, 80)
    edge_index = torch.cat([torch.stack([hub, 0 * hub]), torch.stack([0 * hub, hub])], 1)
    x = torch.randn(80, 2)
    expected = by_pyg(network, x, edge_index)
    out = network.to(gpu).embed(x.to(gpu), edge_index.to(gpu))
    assert_close([out.detach()], [expected.detach()], 1e-5)
    assert launched == ["attention_forward", "spmm", "spmm"]  # the last one pools
