from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from legs import functional as fn
from legs.kernels.gpu.stacked import linear, norm_relu
from legs.models.network import Graphs, Network
from legs.nn import FCN, GraphBatchNorm, InputScale, Readout, WaveletConv
from legs.nn.head import arguments


class DeepLEGS(Network):
    r"""Stacked wavelet convolutions: LEGS for rich node features.

    .. math::
        h_0 = W x, \qquad h_{l+1} = h_l + \mathrm{ReLU}\big(N\, W_l\, \mathrm{ReLU}(
        N\, \mathrm{WaveletConv}_l(h_l))\big)

    with :math:`N` batch norm over nodes. Statistics of the nodes of every :math:`h_l`, and
    :math:`\log(1 + \mathrm{nodes})` and :math:`\log(1 + \mathrm{edges})`, are read by a fully
    connected head.

    Args:
        in_channels: number of node features.
        out_channels: number of classes or targets.
        hidden_channels: width (default 64).
        num_layers: number of layers (default 3).
        dropout: in the head, and after every layer half as much (default 0.2).
        readout: statistics of the nodes, see :class:`~legs.nn.Readout` (default mean, maximum and
            log-sum).
        head_channels: width of the head (default: ``hidden_channels``).
        norm: ``"batch"`` (default) or ``"layer"``.
        edge_dim: number of edge features (default ``None``: none are read).
        conv: options of :class:`~legs.nn.WaveletConv`, such as ``scales``.

    >>> model = DeepLEGS(2, 3).eval()
    >>> model(torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 3,
        dropout: float = 0.2,
        readout: Sequence[str] = ("mean", "max", "logsum"),
        head_channels: int | None = None,
        norm: Literal["batch", "layer"] = "batch",
        edge_dim: int | None = None,
        **conv: Any,
    ) -> None:
        super().__init__()
        self.description = arguments(locals(), "conv")
        if norm not in ("batch", "layer"):
            raise ValueError(f'norm must be "batch" or "layer"; got {norm!r}')
        self.edge_dim = edge_dim
        self.scale = InputScale(in_channels)
        self.first = nn.Linear(in_channels, hidden_channels)
        self.convs, self.linears, self.norms = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        make: Any = GraphBatchNorm if norm == "batch" else nn.LayerNorm
        widths = (hidden_channels, hidden_channels)
        bias = norm == "layer"  # batch norm would undo it
        for _ in range(num_layers):
            self.convs.append(WaveletConv(*widths, edge_dim=edge_dim, bias=bias, **conv))
            self.linears.append(nn.Linear(*widths, bias=bias))
            self.norms.extend([make(hidden_channels), make(hidden_channels)])
        self.dropout = nn.Dropout(dropout / 2)
        self.readout = Readout(readout)
        width = (num_layers + 1) * len(readout) * hidden_channels + 2
        self.head = FCN(width, out_channels, head_channels or hidden_channels, dropout)

    def _embed(self, graphs: Graphs) -> Tensor:
        with torch.autocast(graphs.x.device.type, enabled=False):  # sums over nodes are not rounded
            return self._states(graphs)

    def _states(self, graphs: Graphs) -> Tensor:
        batch, size = graphs.segments()
        states = self.first(self.scale(graphs.x))
        mask = None if graphs.mask is None else graphs.mask[batch]
        conv: Any = self.convs[0]
        graph = conv.prepared(states, *graphs[1:3], batch, size)
        layers = [states]
        for k, (conv, second) in enumerate(zip(self.convs, self.linears, strict=True)):
            hidden = conv.convolve(states, graph, graphs.edge_index, graphs.edge_attr)
            hidden = self._block(2 * k, conv.lin, hidden, mask)
            hidden = self._block(2 * k + 1, second, hidden, mask)
            states = states + self.dropout(hidden)
            layers.append(states)
        count = fn.graph_size(graphs.edge_index, batch, len(states), size, dtype=states.dtype)
        features = self.readout(torch.cat(layers, dim=1), batch, size)
        return torch.cat([features, count.log1p()], dim=1)

    def initialize(
        self, x: Tensor, features: Tensor | None = None, graphs: int | None = None
    ) -> None:
        super().initialize(x, features, graphs)
        for norm in self.norms if graphs is not None else ():
            if isinstance(norm, GraphBatchNorm):
                norm.bound_by(len(x))  # its rows are nodes

    def _block(self, place: int, layer: Any, states: Tensor, mask: Tensor | None) -> Tensor:
        """Linear map, norm and ReLU."""
        norm: Any = self.norms[place]
        states = linear(states, layer.weight)
        if isinstance(norm, GraphBatchNorm):
            out: Tensor = norm(states, mask, relu=True)
            return out
        return norm_relu(states, layer.bias, norm.weight, norm.bias, norm.eps)
