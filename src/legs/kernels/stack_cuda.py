"""Kernels for stacks of models on NVIDIA GPUs: steps of Adam, batch norm, and batches.

All these are small: done by PyTorch, they would be hundreds of launches a training step. Everything
has a leading axis of models here. Compiled at run time (:mod:`legs.kernels.messages_cuda`), and no
kernel looks at its data from the host: steps can be recorded, and give the same bits every time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from legs.kernels.cuda_launch import TYPES
from legs.kernels.messages_cuda import compiled, fit, layer

THREADS = 256
LANES = 32  # channels of a block in batch norm
EACH = 4  # numbers one after another in the hands of a thread


def adam_step(
    grad: Tensor,
    lr: Tensor,
    steps: Tensor,
    active: Tensor,
    weights: Tensor,
    first: Tensor,
    second: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """A step of Adam in place; see :class:`legs.training.adam.StackedAdam`.

    Args:
        grad: ``[models, width]``.
        lr: ``[models]``.
        steps: ``[models]``, this one counted.
        active: ``[models]``; what belongs to other models stays as it is.
        weights: ``[models, width]``, rows apart.
        first: moments, ``[models, width]``.
        second: moments, ``[models, width]``.
        betas: of the moments.
        eps: added to the root of the second.
    """
    models, width = grad.shape
    blocks = -(-width // (THREADS * EACH))
    start = weights.as_strided((1,), (1,), weights.storage_offset())
    given: list[Any] = [fit(grad), lr, steps, active, start, first, second]
    given += [width, weights.stride(0), blocks, *betas, eps]
    _run("stack_adam", "adam", grad, {}, models * blocks, given)


def norm_forward(
    x: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
    momentum: float,
) -> tuple[Tensor, Tensor]:
    """Batch norm in training; see :class:`legs.nn.GraphBatchNorm`.

    Args:
        x: ``[models, graphs, channels]``, or ``[1, graphs, channels]`` for all models.
        mask: ``[models, graphs]``, one where a graph counts, else zero.
        weight: ``[models, channels]``.
        bias: ``[models, channels]``.
        running_mean: ``[models, channels]``, changed in place.
        running_var: ``[models, channels]``, changed in place.
        eps: added to variances.
        momentum: of the running averages.

    Returns:
        The result, ``[models, graphs, channels]``; means and one over deviations,
        ``[models, 2, channels]``.
    """
    (models, graphs), channels = mask.shape, x.shape[2]
    tiles = -(-channels // LANES)
    out, kept = x.new_empty(models, graphs, channels), x.new_empty(models, 2, channels)
    *starts, weights_apart, biases_apart = layer(x, weight, bias)
    given = [fit(x), fit(mask), *starts, running_mean, running_var, out, kept]
    given += [graphs, channels, tiles, weights_apart, biases_apart, eps, momentum]
    _run("stack_norm", "norm_forward", x, {"SAME": int(len(x) < models)}, models * tiles, given)
    return out, kept


def norm_backward(
    grad: Tensor, x: Tensor, mask: Tensor, weight: Tensor, kept: Tensor, wanted: bool
) -> tuple[Tensor | None, Tensor]:
    """Gradients of features, if they are ``wanted``, and of weight and bias side by side."""
    models, graphs, channels = grad.shape
    tiles = -(-channels // LANES)
    change, terms = (grad.new_empty(grad.shape) if wanted else None), kept.new_empty(kept.shape)
    start, apart = layer(x, weight)
    given = [fit(grad), fit(x), fit(mask), start, kept]
    given += [x.new_empty(0) if change is None else change, terms]
    given += [graphs, channels, tiles, apart]
    _run("stack_norm", "norm_backward", x, {"SAME": int(len(x) < models)}, models * tiles, given)
    return change, terms


def gather(
    rows: Tensor,
    ends: Tensor,
    x: Tensor,
    row: Tensor,
    col: Tensor,
    weight: Tensor | None,
    nodes: int,
    edges: int,
    fillers: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Graphs side by side in a fixed room; see :class:`legs.training.filled.FilledBatches`.

    Args:
        rows: nodes, edges, first node and first edge of each graph, ``[slots, 4]``.
        ends: nodes and edges of all graphs up to each, ``[slots, 2]``.
        x: node features of the data set, ``[all nodes, channels]``.
        row: of its edges, int32.
        col: of its edges, int32.
        weight: of its edges, or ``None``.
        nodes: there is room for.
        edges: there is room for.
        fillers: graphs at the end that take the nodes left over.

    Returns:
        Node features, the graph of each node, edges ``[2, edges]`` and their weights.
    """
    slots, channels = len(rows), x.shape[1]
    new_x, batch = x.new_empty(nodes, channels), rows.new_empty(nodes)
    index = rows.new_empty(2, edges)
    nothing = x.new_empty(0)  # its address is null
    new_weight = None if weight is None else weight.new_empty(edges)
    given: list[Any] = [rows.contiguous(), ends.contiguous(), x.contiguous(), row, col]
    given += [nothing if weight is None else weight, new_x, batch, index[0], index[1]]
    given += [nothing if new_weight is None else new_weight, slots, nodes, edges]
    constants: dict[str, int | str] = {"CHANNELS": channels, "FILLERS": fillers}
    constants["WEIGHTED"] = int(weight is not None)
    constants["of_weights"] = TYPES[x.dtype if weight is None else weight.dtype]
    blocks = -(-(nodes * channels + edges) // (THREADS * EACH))
    _run("stack_batch", "gather", x, constants, blocks, given)
    return new_x, batch, index, new_weight


def _run(
    part: str,
    name: str,
    like: Tensor,
    constants: dict[str, int | str],
    blocks: int,
    given: list[Any],
) -> None:
    device = like.device.index
    kernel = compiled(part, name, like.dtype, device, THREADS=THREADS, **constants)
    with torch.cuda.device(device):
        kernel(blocks, THREADS, given)
