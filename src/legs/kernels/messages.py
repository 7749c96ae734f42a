r"""Message passing over batches of undirected graphs, for many models at once.

Layers of PyG gather a message an edge and scatter them to the nodes, in memory. Here a node reads
its neighbours' states and writes their sum. Edges go both ways, so that a sum over neighbours is
its own adjoint, and gradients are gathered as states are. All functions take states
``[..., nodes, channels]``, are differentiable and may be mapped over (:func:`torch.func.vmap`); the
graphs are the same for all models. On a GPU they are kernels (:mod:`legs.kernels.messages_cuda`),
on the CPU compiled loops (:mod:`legs.kernels.messages_cpu`), elsewhere and for small batches plain
PyTorch (:mod:`legs.kernels.messages_reference`).

Nodes may stand for several that are alike (:func:`legs.data.merge_alike`). Edge weights are then
numbers of neighbours :math:`w_{ij}` of each kind, and always count. They differ between the two
directions, but :math:`n_i w_{ij} = n_j w_{ji}` with the numbers of nodes :math:`n`: gradients are
still gathered by the same rows (:func:`legs.kernels.messages_functions.adjoint_scales`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from legs.kernels import messages_cuda, messages_reference
from legs.kernels.dispatch import chosen
from legs.kernels.linear import linear
from legs.kernels.messages_functions import Aggregate, Attend, Rows, applies


class Graphs(NamedTuple):
    """A batch of undirected graphs in compressed rows."""

    rowptr: Tensor  # [nodes + 1], int32
    col: Tensor  # [edges], int32: neighbours, row by row
    row: Tensor  # [edges]: the node of each entry of col
    weight: Tensor | None  # [edges], None for ones
    ptr: Tensor  # [graphs + 1], int32: the first node of each graph
    batch: Tensor  # [nodes], int32: the graph of each node
    copies: Tensor | None = None  # [nodes], how many each stands for, None for ones

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.batch.shape[0]

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return self.ptr.shape[0] - 1

    def weights(self, counted: bool, dtype: torch.dtype) -> Tensor | None:
        """Edge weights where they count: if they are to, and wherever nodes stand for several."""
        if self.weight is None or not (counted or self.copies is not None):
            return None
        return self.weight.to(dtype)


def wanted(x: Tensor) -> bool:
    """Whether networks should pass messages this way, unless ``use("reference")`` says otherwise.

    That says nothing about the graphs, which must be undirected.
    """
    if chosen() == "reference" or torch.compiler.is_compiling():
        return False
    return x.device.type in ("cpu", "cuda") and x.dtype in (torch.float32, torch.float64)


def make_graphs(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    batch: Tensor | None,
    num_nodes: int,
    num_graphs: int = 1,
    copies: Tensor | None = None,
) -> Graphs:
    """Compressed rows of a batch whose edges are sorted already; looks at no data.

    Args:
        edge_index: ``[2, edges]``, both directions of every edge, sorted by target.
        edge_weight: ``[edges]``, the same in both directions, or ``None``; gets no gradient. With
            ``copies``, how many neighbours like its source the target has.
        batch: the graph of each node, sorted; ``None`` for a single graph.
        num_nodes: number of nodes.
        num_graphs: number of graphs (default 1).
        copies: how many nodes each one stands for, ``[nodes]`` (default one).

    >>> graphs = make_graphs(torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]]), None, None, 3)
    >>> graphs.rowptr, graphs.col
    (tensor([0, 1, 3, 4], dtype=torch.int32), tensor([1, 0, 2, 1], dtype=torch.int32))
    """
    source, target = edge_index
    if batch is None:
        batch = torch.zeros(num_nodes, dtype=torch.long, device=edge_index.device)
    return Graphs(
        _pointers(target, num_nodes),
        source.int(),
        target,
        None if edge_weight is None else edge_weight.detach(),
        _pointers(batch, num_graphs),
        batch.int(),
        None if copies is None else copies.detach(),
    )


def aggregate(
    h: Tensor,
    graphs: Graphs,
    *,
    weighted: bool = False,
    pre: Tensor | None = None,
    post: Tensor | None = None,
    own: Tensor | float = 0.0,
    side: bool = False,
) -> Tensor:
    r"""Sums over neighbours, :math:`b_i \big(\sum_j w_{ij} a_j h_j + c\, a_i h_i\big)`.

    Args:
        h: ``[..., nodes, channels]``.
        graphs: the batch.
        weighted: whether edge weights count, if there are any (default no; with copies they do).
        pre: :math:`a`, ``[nodes]`` (default ones).
        post: :math:`b`, ``[nodes]`` (default ones).
        own: :math:`c`, 0 (default), 1, or a tensor of one number a model, without gradient.
        side: whether only the first half of the channels is summed, and the second added to the
            result as it is (default no).

    >>> path = make_graphs(torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]]), None, None, 3)
    >>> aggregate(torch.tensor([[1.0], [10.0], [100.0]]), path).T
    tensor([[ 10., 101.,  10.]])
    """
    if not isinstance(own, Tensor) and own not in (0, 1):
        raise ValueError(f"own must be 0, 1 or a tensor; got {own}")
    weight = graphs.weights(weighted, h.dtype)
    if not applies(h):
        return messages_reference.aggregate(h, graphs.row, graphs.col, weight, pre, post, own, side)
    flat = _models(h)
    each, once = None, False
    if isinstance(own, Tensor):
        each = own.reshape(-1).expand(flat.shape[0])
    else:
        once = bool(own)
    given = (graphs.rowptr, graphs.col, weight, pre, post, once, int(side))
    copies = None if graphs.copies is None else graphs.copies.to(h.dtype)
    out: Tensor = Aggregate.apply(flat, each, copies, *given)  # type: ignore[no-untyped-call]
    return out.reshape(*h.shape[:-2], *out.shape[-2:])


def norm_relu(
    z: Tensor,
    graphs: Graphs,
    gamma: Tensor,
    beta: Tensor,
    bias: Tensor | None = None,
    *,
    weight: Tensor | None = None,
    eps: float = 1e-5,
    share: Tensor | None = None,
) -> Tensor:
    """Layer norm of every node's state, and ReLU.

    Args:
        z: ``[..., nodes, channels]``.
        graphs: the batch.
        gamma: ``[..., channels]``, factors of the standardised states.
        beta: ``[..., channels]``, added to them.
        bias: ``[..., channels]``, added to ``z`` before (default nothing).
        weight: ``[..., channels, inputs]``, of a linear layer that comes first: ``z`` has so many
            inputs then (default none). Of few inputs, the layer's result is never written.
        eps: added to variances (default 1e-5).
        share: as in :func:`pool`, to get sums over graphs only (default: states of all nodes).
    """
    return _rows(z, graphs, bias, gamma, beta, weight, share, "norm", eps)


def tanh(z: Tensor, graphs: Graphs, bias: Tensor, *, share: Tensor | None = None) -> Tensor:
    """``tanh(z + bias)``; with ``share`` its sums over graphs, as in :func:`pool`."""
    return _rows(z, graphs, bias, None, None, None, share, "tanh", 0.0)


def pool(h: Tensor, graphs: Graphs, share: Tensor) -> Tensor:
    r"""Sums over graphs, each node by its share.

    Args:
        h: ``[..., nodes, channels]``.
        graphs: the batch.
        share: ``[nodes, shares]``: ones for a sum, one over the size of the graph for a mean.

    Returns:
        ``[..., graphs, shares * channels]``: the sums for the first share, then for the second, ….

    >>> pair = make_graphs(torch.empty(2, 0, dtype=torch.long), None, torch.tensor([0, 1, 1]), 3, 2)
    >>> pool(torch.tensor([[1.0], [2.0], [3.0]]), pair, torch.ones(3, 1)).T
    tensor([[1., 5.]])
    """
    return _rows(h, graphs, None, None, None, None, share, "none", 0.0)


def attend(u: Tensor, graphs: Graphs, heads: int, slope: float = 0.2) -> Tensor:
    r"""Attention over every node's neighbours and itself.

    .. math::
        \sum_j a_{ij} h_j, \qquad
        a_{ij} = \mathrm{softmax}_j\, \mathrm{leaky}(s_j + r_i)

    Args:
        u: ``[..., nodes, heads * channels + 2 * heads]``: states :math:`h` head by head, the scores
            :math:`s` of all heads, then :math:`r`.
        graphs: the batch; edge weights do not count, but with copies each neighbour does as often.
        heads: number of heads.
        slope: of the leaky ReLU below zero (default 0.2).

    Returns:
        ``[..., nodes, heads * channels]``.
    """
    channels, weight = u.shape[-1] // heads - 2, graphs.weights(False, u.dtype)
    on_gpu = messages_cuda.applies(u)
    fits = not on_gpu or messages_cuda.shape_of_heads(heads, channels, u.dtype) is not None
    if not (fits and applies(u)):
        return messages_reference.attend(u, graphs.row, graphs.col, weight, heads, slope)
    flat = _models(u)
    copies = None if graphs.copies is None else graphs.copies.to(u.dtype)
    rows = (graphs.rowptr, graphs.col, weight)
    out, _ = Attend.apply(flat, copies, *rows, heads, slope)  # type: ignore[no-untyped-call]
    found: Tensor = out.reshape(*u.shape[:-1], heads * channels)
    return found


def _models(x: Tensor) -> Tensor:
    """``[models, nodes, channels]``, also where there are no nodes."""
    return x.unsqueeze(0) if x.dim() == 2 else x.flatten(0, -3)


def _rows(
    z: Tensor,
    graphs: Graphs,
    bias: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    weight: Tensor | None,
    share: Tensor | None,
    act: str,
    eps: float,
) -> Tensor:
    fused = applies(z)
    if weight is not None:
        channels, inputs = weight.shape[-2:]
        if not (messages_cuda.applies(z) and messages_cuda.is_narrow(inputs, channels, z.dtype)):
            z, weight = linear(z, weight), None
    if not fused:
        out = messages_reference.activate(z, bias, gamma, beta, act, eps)
        if share is None:
            return out
        return messages_reference.pool(out, share, graphs.batch, graphs.num_graphs)
    flat = _models(z)
    layer = [
        None if x is None else x.reshape(-1, x.shape[-1]).expand(flat.shape[0], -1)
        for x in (bias, gamma, beta)
    ]
    if weight is not None:
        weight = weight.reshape(-1, channels, inputs).expand(flat.shape[0], -1, -1)
    given = (weight, share, graphs.ptr, graphs.batch, act, eps)
    found: Tensor = Rows.apply(flat, *layer, *given)  # type: ignore[no-untyped-call]
    return found.reshape(*z.shape[:-2], *found.shape[-2:])


def _pointers(sorted_rows: Tensor, size: int) -> Tensor:
    wanted = torch.arange(size + 1, device=sorted_rows.device, dtype=sorted_rows.dtype)
    return torch.searchsorted(sorted_rows.contiguous(), wanted, out_int32=True)
