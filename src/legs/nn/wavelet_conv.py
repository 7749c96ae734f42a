from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter, is_lazy
from torch_geometric.nn import Linear

from legs import functional as fn
from legs.functional.diffusion import BASE, Walk
from legs.functional.nonlinearity import (
    Nonlinearity,
    band_parts,
    low_nonlinearity,
)
from legs.functional.operators import DiffusionOperator, OperatorLike, check_name, is_complex
from legs.kernels.bank import Graph, difference_bank
from legs.kernels.gpu import launch
from legs.kernels.gpu.stacked import mix
from legs.kernels.op import Backend, bank_filters, check_backend
from legs.nn.adjacency import prepare_operator, read_edges
from legs.nn.scale_selection import Scales, ScaleSelection


class WaveletConv(nn.Module):
    r"""A graph convolution by diffusion wavelets.

    .. math::
        h' = W \Big( a_x \odot h + \sum_{j<J} a_j \odot |\Psi_j h| + a_\Phi \odot \Phi_J h \Big)
        + b, \quad
        \Psi_j = P^{t_j} - P^{t_{j+1}}, \quad \Phi_J = P^{t_J}, \quad P = \tfrac12 (I + A)

    with :math:`t_0 = 0` and scales :math:`t_1 < \dots < t_J`, fixed or learned: every channel has
    its own weights :math:`a` of the bands, then one linear map mixes the channels. One layer sees
    :math:`t_J` steps far, each band at its own distance. With edge features, one more band,
    :math:`\sum_j \mathrm{ReLU}(h_j + W_e e_{ij})`.

    Args:
        in_channels: size of each input signal, or -1 to read it off the first input.
        out_channels: size of each output signal.
        scales: ``"dyadic"`` (default), ``"learned"`` or increasing numbers, at least 1.
        num_scales: number :math:`J` of scales (default 5).
        steps: number of diffusion steps (default: the largest scale; 16 for learned ones).
        operator: :math:`A`: ``"row"`` (default) for :math:`D^{-1} W`, ``"walk"`` for the paper's
            :math:`W D^{-1}`, ``"symmetric"`` for :math:`D^{-1/2} W D^{-1/2}`, ``"heat"``,
            ``"directed"``, or one of your own: :mod:`legs.functional.operators`.
        wavelets: whether to include the :math:`\Psi_j` (default ``True``).
        lowpass: whether to include :math:`\Phi_J` (default ``True``).
        nonlinearity: of the wavelets: ``"abs"`` (default), ``"relu-pair"`` for both
            :math:`\mathrm{ReLU}(\pm\Psi_j h)`, ``"none"``, or a function of a tensor; see
            :mod:`legs.functional.nonlinearity`.
        mixing: ``"separable"`` (default), or ``"full"`` for
            :math:`W [h, |\Psi_0 h|, \dots, \Phi_J h]`, with as many times the weights as there are
            bands.
        edge_dim: number of edge features (default ``None``: none are read).
        bias: whether to add a bias (default ``True``).
        backend: ``"auto"`` (default), ``"reference"`` for plain PyTorch, ``"fused"`` for compiled
            kernels, or an error that says why they cannot serve.
        validate: whether to check that the graph is undirected and weights are sound (default).

    Shapes:
        - input: ``x`` ``[nodes, in_channels]``, ``edge_index`` ``[2, edges]``, optionally
          ``edge_weight`` ``[edges]`` and ``edge_attr`` ``[edges, edge_dim]``; ``batch``,
          the graph of each node, makes batches faster on GPUs
        - output: ``[nodes, out_channels]``

    >>> conv = WaveletConv(2, 8)
    >>> conv(torch.rand(3, 2), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scales: Scales = "dyadic",
        num_scales: int = 5,
        steps: int | None = None,
        operator: OperatorLike = "row",
        wavelets: bool = True,
        lowpass: bool = True,
        nonlinearity: Nonlinearity = "abs",
        mixing: Literal["separable", "full"] = "separable",
        edge_dim: int | None = None,
        bias: bool = True,
        backend: Backend = "auto",
        validate: bool = True,
    ) -> None:
        super().__init__()
        check_backend(backend)
        check_name(operator)
        if scales == "infogain":
            raise ValueError("pass the scales of Scattering(scales='infogain') as a list")
        if in_channels == -1 and edge_dim is not None:
            raise ValueError("in_channels must be given where edge_dim is")
        if mixing not in ("separable", "full"):
            raise ValueError(f'mixing must be "separable" or "full"; got {mixing!r}')
        if not wavelets and not lowpass:
            raise ValueError("there are no bands: wavelets and lowpass are both False")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.operator: Any = operator
        self.nonlinearity = nonlinearity
        self.wavelets, self.lowpass = bool(wavelets), bool(lowpass)
        self.edge_dim, self.backend, self.validate = edge_dim, backend, validate
        # What training knows of its batches: edge_index[1] is sorted; nodes of a graph, at most.
        self.is_sorted = False
        self.largest: int | None = None
        self.selection = ScaleSelection(scales, num_scales, steps)
        # Of times between integers they are computed in the precision of the signals.
        whole = all(isinstance(t, int) for t in self.selection.initial or ())
        fixed = self._filters() if whole and not self.selection.learned else None
        self.fixed_filters: Tensor | None
        self.register_buffer("fixed_filters", fixed, persistent=False)
        parts, low = map(len, band_parts(nonlinearity, is_complex(operator)))
        self.num_bands = 1 + parts * self.num_wavelets + low * self.lowpass + (edge_dim is not None)
        width = self.num_bands if mixing == "full" else 1
        self.lin = Linear(-1 if in_channels == -1 else width * in_channels, out_channels, bias)
        self.lin_edge = None if edge_dim is None else Linear(edge_dim, in_channels)
        self.band_weight: Any = None
        if mixing == "separable":
            self.band_weight = UninitializedParameter()
            if in_channels != -1:
                self.band_weight.materialize((self.num_bands, in_channels))
        self.reset_parameters()

    @property
    def num_wavelets(self) -> int:
        """Number of wavelets."""
        return self.selection.num_scales if self.wavelets else 0

    def reset_parameters(self) -> None:
        """Draws the weights again; learned scales go back to their start."""
        self.selection.reset_parameters()
        self.lin.reset_parameters()
        if self.lin_edge is not None:
            self.lin_edge.reset_parameters()
        if self.band_weight is not None and not is_lazy(self.band_weight):
            bound = (3 / self.num_bands) ** 0.5  # sums keep the variance of the bands
            nn.init.uniform_(self.band_weight, -bound, bound)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Any,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """New states of the nodes."""
        if self.band_weight is not None and is_lazy(self.band_weight):
            self.band_weight.materialize((self.num_bands, x.shape[1]))
            self.reset_parameters()
        edge_index, edge_weight = read_edges(edge_index, edge_weight, x)
        half = x.dtype in (torch.float16, torch.bfloat16)
        states = x.float() if half else x  # sums run in float32 at least
        graph = self.prepared(states, edge_index, edge_weight, batch, batch_size)
        out: Tensor = self.lin(self.convolve(states, graph, edge_index, edge_attr).to(x.dtype))
        return out

    def prepared(
        self, x: Tensor, edge_index: Tensor, *graphs: Any
    ) -> Graph | Walk | DiffusionOperator:
        """The graphs for :meth:`convolve`, of all layers with the same scales."""
        options: dict[str, Any] = {"backend": self.backend, "validate": self.validate}
        options |= {"bands": self.num_wavelets + self.lowpass, "states": self.selection.steps + 1}
        options |= {"is_sorted": self.is_sorted, "largest": self.largest}
        return prepare_operator(self.operator, BASE, x, edge_index, *graphs, **options)

    def convolve(
        self,
        x: Tensor,
        graph: Graph | Walk | DiffusionOperator,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """What the linear map reads, on graphs of :meth:`prepared`."""
        if not isinstance(graph, Graph):
            options: Any = {"wavelets": self.wavelets, "lowpass": self.lowpass}
            bands = fn.wavelet_transform(x, graph, BASE, self.selection().to(x.dtype), **options)
            return self._mix(x, bands.movedim(0, 1), edge_index, edge_attr)
        filters = self.fixed_filters
        if filters is None:
            filters = self._filters()
        bands = difference_bank(graph, x, filters.to(x.dtype), self.operator)
        return self._mix(x, bands, edge_index, edge_attr)

    def _filters(self) -> Tensor:
        rows = bank_filters(self.selection(), wavelets=self.wavelets, lowpass=self.lowpass)
        return rows.movedim(0, -1) if rows.dim() == 3 else rows  # channels last

    def _mix(
        self, x: Tensor, bands: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None
    ) -> Tensor:
        """What the linear map reads, from bands ``[nodes, bands, channels]``."""
        count, out = self.num_wavelets, None
        weight = self.band_weight
        simple = self.nonlinearity in ("abs", "none") and not bands.is_complex()
        fused = self.backend != "reference" and weight is not None and launch.applies(x)
        if fused and simple and not torch.compiler.is_compiling() and x.numel():
            size = 1 + bands.shape[1]
            out = mix(
                x, bands, weight[:size].to(x.dtype), count if self.nonlinearity == "abs" else 0
            )
            parts, weight = [], weight[size:]
        else:
            wavelets, low = bands.split([count, bands.shape[1] - count], dim=1)
            split = fn.split_bands(wavelets, self.nonlinearity)
            if count:  # part by part, then band by band
                split = split.unflatten(1, (count, -1)).transpose(1, 2).flatten(1, 2)
            low = fn.split_bands(low, low_nonlinearity(self.nonlinearity, bands.is_complex()))
            parts = [x.unsqueeze(1), split, low]
        if self.lin_edge is not None:
            if edge_attr is None:
                raise ValueError(f"edge_attr is missing: the layer has edge_dim={self.edge_dim}")
            source, target = edge_index
            messages = (x.index_select(0, source) + self.lin_edge(edge_attr)).relu()
            parts.append(torch.zeros_like(x).index_add(0, target, messages).unsqueeze(1))
        if weight is None:
            return torch.cat(parts, dim=1).flatten(1)
        weights = weight.split([part.shape[1] for part in parts])
        sums = [(part * each).sum(1) for part, each in zip(parts, weights, strict=True)]
        total: Tensor = sum(sums[1:], sums[0]) if out is None else sum(sums, out)
        return total

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {self.selection!r})"
