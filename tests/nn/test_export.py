"""Modules exported by ``torch.export``, saved, loaded, and run on batches of other sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim, export, load, save
from torch_geometric.data import Batch

from legs import LEGSNet, Scattering
from legs.models import create
from legs.nn import FCN
from tests.graphs import random_graph


def network() -> LEGSNet:
    scattering = Scattering(2, num_scales=3, steps=8)
    return LEGSNet(scattering, FCN(scattering.out_channels, 2))


MODULES: dict[str, Callable[[], nn.Module]] = {
    "fixed": lambda: Scattering(2, scales="dyadic", num_scales=3),
    "learned": lambda: Scattering(2, num_scales=3, steps=8, append_graph_size=True),
    "nodes": lambda: Scattering(2, num_scales=2, steps=3, operator="row", aggr=None),
    "network": network,
    "deep": lambda: create("legs-deep", 2, 3, num_layers=2),
}


def batch_of(graphs: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    data = Batch.from_data_list([random_graph(6 + i, generator) for i in range(graphs)])
    return torch.randn(data.num_nodes, 2, generator=generator), data.edge_index, data.batch


@pytest.mark.parametrize("name", MODULES)
def test_sizes_are_dynamic_and_files_hold_all(name: str, tmp_path: Path) -> None:
    module, generator = MODULES[name]().eval(), torch.manual_seed(0)
    x, edge_index, batch = batch_of(3, generator)
    nodes, edges = Dim("nodes", min=2), Dim("edges", min=2)
    sizes = ({0: nodes}, {1: edges}, None, {0: nodes}, Dim.DYNAMIC)
    program = export(module, (x, edge_index, None, batch, 3), dynamic_shapes=sizes)
    save(program, tmp_path / "module.pt2")
    again = load(tmp_path / "module.pt2").module()
    for graphs in (3, 5):
        x, edge_index, batch = batch_of(graphs, generator)
        given = (x, edge_index, None, batch, graphs)
        torch.testing.assert_close(again(*given), module(*given))


def test_what_depends_on_values_does_not_export() -> None:
    x, edge_index, batch = batch_of(3, torch.manual_seed(0))
    with pytest.raises(Exception, match="data-dependent"):
        export(Scattering(2).eval(), (x, edge_index, None, batch))
    with pytest.raises(Exception, match="data-dependent"):
        export(Scattering(2, operator="directed").eval(), (x, edge_index, None, batch, 3))
