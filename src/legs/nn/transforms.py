from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from legs.nn.scattering import Scattering


@functional_transform("add_scattering")
class AddScattering(BaseTransform):
    r"""Adds the scattering features of ``data.x``, computed once for a data set.

    Args:
        scattering: with ``aggr=None`` for features of nodes, else for features of graphs,
            ``[1, out_channels]``, which a batch stacks.
        attr_name: attribute of the result (default ``"scattering"``), or ``None`` to append
            features of nodes to ``data.x``.

    >>> data = Data(x=torch.rand(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> AddScattering(Scattering(1, scales="dyadic"))(data).scattering.shape
    torch.Size([1, 64])
    """

    def __init__(self, scattering: Scattering, attr_name: str | None = "scattering") -> None:
        if attr_name is None and scattering.aggr is not None:
            raise ValueError("attr_name=None appends features of nodes; they need aggr=None")
        self.scattering, self.attr_name = scattering, attr_name

    @torch.no_grad()
    def forward(self, data: Data) -> Data:
        """The same graph with the features."""
        edges = data.adj_t.t() if data.edge_index is None else data.edge_index
        out = self.scattering(data.x, edges, data.edge_weight)
        data[self.attr_name or "x"] = out if self.attr_name else torch.cat([data.x, out], dim=1)
        return data
