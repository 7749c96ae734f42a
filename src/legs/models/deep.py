from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from legs import functional as fn
from legs.kernels.gpu.stacked import linear, norm_relu
from legs.models.network import Graphs, Network
from legs.nn import FCN, FeatureScale, GraphBatchNorm, InputScale, Readout, WaveletConv
from legs.nn.head import arguments


class DeepNetwork(Network):
    """Residual blocks around layers of one kind, and a readout of every block's states.

    Subclasses say what a layer is, by :meth:`_conv`, :meth:`_prepared` and :meth:`_layer`.
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
        graph_dim: int | None = None,
        layer_dropout: float = 0.0,
        **conv: Any,
    ) -> None:
        super().__init__()
        self.description = arguments(locals(), "conv")
        if norm not in ("batch", "layer"):
            raise ValueError(f'norm must be "batch" or "layer"; got {norm!r}')
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1; got {num_layers}")
        self.edge_dim, self.graph_dim = edge_dim, graph_dim
        self.scale = InputScale(in_channels)
        self.first = nn.Linear(in_channels, hidden_channels)
        self.convs, self.linears, self.norms = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        make: Any = GraphBatchNorm if norm == "batch" else nn.LayerNorm
        bias = norm == "layer"  # batch norm would undo it
        for _ in range(num_layers):
            self.convs.append(self._conv(hidden_channels, edge_dim=edge_dim, bias=bias, **conv))
            self.linears.append(nn.Linear(hidden_channels, hidden_channels, bias=bias))
            self.norms.extend([make(hidden_channels), make(hidden_channels)])
        self.dropout = nn.Dropout(layer_dropout)
        self.readout = Readout(readout)
        width = (num_layers + 1) * len(self.readout.statistics) * hidden_channels + 2
        if graph_dim is not None:
            # Mixed before the head: its batch norm would blow up a fingerprint's rare bits.
            self.graph_scale = FeatureScale(graph_dim)
            self.graph_dropout = nn.Dropout(dropout)
            self.graph_lin = nn.Linear(graph_dim, hidden_channels, bias=False)
            width += hidden_channels
        self.head = FCN(width, out_channels, head_channels or hidden_channels, dropout)

    @abstractmethod
    def _conv(self, channels: int, **options: Any) -> nn.Module:
        """A layer from and to ``channels``, by ``edge_dim``, ``bias`` and options of its own."""

    @abstractmethod
    def _prepared(self, states: Tensor, graphs: Graphs) -> Any:
        """The graphs as all layers read them."""

    @abstractmethod
    def _layer(
        self, conv: Any, states: Tensor, prepared: Any, graphs: Graphs
    ) -> tuple[Tensor, Tensor | None]:
        """New states without the bias, and the bias."""

    @property
    def drops_nodes(self) -> bool:
        """Whether dropout applies to states of nodes."""
        return self.dropout.p > 0

    def _embed(self, graphs: Graphs) -> Tensor:
        (batch, size), multiplicity = graphs.segments(), graphs.multiplicity
        states = self.first(self.scale(graphs.x))
        if multiplicity is not None:
            multiplicity = multiplicity.to(states.dtype)
        mask = multiplicity  # how much each node counts in batch norm
        if graphs.mask is not None:
            mask = graphs.mask[batch] if mask is None else graphs.mask[batch] * mask
        prepared = self._prepared(states, graphs)
        layers = [states]
        blocks: Any = zip(self.convs, self.linears, strict=True)
        for k, (conv, second) in enumerate(blocks):
            hidden = self._normed(2 * k, *self._layer(conv, states, prepared, graphs), mask)
            hidden = linear(hidden, second.weight)
            hidden = self._normed(2 * k + 1, hidden, second.bias, mask)
            states = states + self.dropout(hidden)
            layers.append(states)
        sizes = (states.shape[0], size, graphs.edge_weight, multiplicity, states.dtype)
        count = fn.graph_size(graphs.edge_index, batch, *sizes)
        features = self.readout(torch.cat(layers, dim=1), batch, size, multiplicity)
        parts = [features, count.log1p()]
        if self.graph_dim is not None:
            if graphs.graph_features is None:
                name = f"graph_dim={self.graph_dim}"
                raise ValueError(f"graph_features are missing: the network has {name}")
            own = self.graph_dropout(self.graph_scale(graphs.graph_features))
            parts.append(self.graph_lin(own))
        return torch.cat(parts, dim=1)

    def initialize(
        self, x: Tensor, features: Tensor | None = None, graphs: int | None = None
    ) -> None:
        super().initialize(x, features, graphs)
        for norm in self.norms if graphs is not None else ():
            if isinstance(norm, GraphBatchNorm):
                norm.bound_by(len(x))  # its rows are nodes

    def _normed(
        self, place: int, states: Tensor, bias: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        """Norm and ReLU."""
        norm: Any = self.norms[place]
        if bias is None:
            out: Tensor = norm(states, mask, relu=True)
            return out
        return norm_relu(states, bias, norm.weight, norm.bias, norm.eps)


class DeepLEGS(DeepNetwork):
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
        dropout: in the head (default 0.2).
        readout: statistics of the nodes, see :class:`~legs.nn.Readout` (default mean, maximum and
            log-sum).
        head_channels: width of the head (default: ``hidden_channels``).
        norm: ``"batch"`` (default) or ``"layer"``.
        edge_dim: number of edge features (default ``None``: none are read).
        graph_dim: number of graph-level features (default ``None``: none are read). Scaled by
            :class:`~legs.nn.FeatureScale` and mapped linearly to ``hidden_channels``, they are read
            by the head beside the statistics.
        layer_dropout: after every layer (default 0).
        conv: options of :class:`~legs.nn.WaveletConv`, such as ``scales``.

    >>> model = DeepLEGS(2, 3).eval()
    >>> model(torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 3])
    """

    def _conv(self, channels: int, **options: Any) -> nn.Module:
        return WaveletConv(channels, channels, **options)

    @property
    def takes_multiplicity(self) -> bool:
        """Averages over neighbors are the same at equivalent nodes, which edge features are not."""
        conv: Any = self.convs[0]
        return self.edge_dim is None and conv.operator == "row"

    def _prepared(self, states: Tensor, graphs: Graphs) -> Any:
        conv: Any = self.convs[0]
        weight = graphs.edge_weight
        if graphs.multiplicity is not None and weight is not None:
            # All edges between two classes: an undirected graph with the same averages.
            weight = weight * graphs.multiplicity.index_select(0, graphs.edge_index[1])
        return conv.prepared(states, graphs.edge_index, weight, *graphs.segments())

    def _layer(
        self, conv: Any, states: Tensor, prepared: Any, graphs: Graphs
    ) -> tuple[Tensor, Tensor | None]:
        bands = conv.convolve(states, prepared, graphs.edge_index, graphs.edge_attr)
        return linear(bands, conv.lin.weight), conv.lin.bias
