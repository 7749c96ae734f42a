"""Modules compiled by Inductor, with dynamic shapes: values and gradients as in eager mode."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch_geometric.data import Batch

from legs import LEGSNet, Scattering
from legs.nn import FCN
from tests.graphs import random_graph

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="Inductor needs a C++ compiler"
)


def learned() -> LEGSNet:
    scattering = Scattering(2, num_scales=2, steps=3)
    return LEGSNet(scattering, FCN(scattering.out_channels, 2, hidden_channels=4)).eval()


def fixed() -> Scattering:
    return Scattering(2, scales="dyadic", num_scales=2)


@pytest.mark.parametrize("make", [learned, fixed])
def test_inductor_with_dynamic_shapes(make):
    torch._dynamo.reset()
    generator = torch.manual_seed(0)
    module = make().double()
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    for count in (3, 5):
        graphs = [random_graph(8, generator) for _ in range(count)]
        data = Batch.from_data_list(graphs)
        x = torch.randn(8 * count, 2, generator=generator, dtype=torch.float64).requires_grad_()
        wanted = [x, *module.parameters()]
        found = []
        for call in (module, compiled):
            out = call(x, data.edge_index, batch=data.batch, batch_size=count)
            found.append([out, *torch.autograd.grad(out.square().sum(), wanted)])
        torch.testing.assert_close(found[1], found[0], rtol=1e-7, atol=1e-7)
