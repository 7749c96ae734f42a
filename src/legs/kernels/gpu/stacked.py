"""Layers for stacks of models: one pass over memory each.

Tensors have an axis of models in front, into which :func:`torch.func.vmap` folds its own; graphs
are the same for all models. Gradients are those of one derivative, unless stated otherwise.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from legs.functional.sparse import Pattern
from legs.kernels.gpu import launch
from legs.kernels.mapped import Folded

THREADS = 256  # per block
WARPS = THREADS // 32
BLOCKS = 2048  # that fill a GPU
# A weight's gradient is a sum over all rows, which a matrix product leaves to one block per tile of
# the weight. With rows in parts there are enough blocks, and parts are added in a fixed order.
PARTS, PART_ROWS = 64, 64
FEW_ROWS = 512  # up to which one block per tile normalizes all of them


def product(rowptr: Tensor, col: Tensor, order: Tensor | None, values: Tensor, x: Tensor) -> Tensor:
    """A sparse matrix times the states of all models, ``[models, rows, channels]``.

    ``x`` is ``[models, columns, channels]``; ``values`` are ``[entries]``, or those of every model
    and head, ``[models, entries, heads]``, where heads are equal parts of the channels. ``order``:
    where the value of each entry is, unless in the order of the entries.
    """
    models, columns, channels = x.shape
    rows, heads = rowptr.shape[0] - 1, values.shape[2] if values.dim() == 3 else 0
    width = next(w for w in (4, 2, 1) if channels // max(heads, 1) % w == 0)
    pieces, out, x = channels // width, x.new_empty(models, rows, channels), x.contiguous()
    if x.data_ptr() % 16:  # it is read 16 bytes at a time
        x = x.clone()
    args = [rowptr, col, order, values, x, out, models, rows, columns, col.shape[0], pieces]
    blocks = -(-models * rows * pieces // THREADS)
    launch.run("spmm", "spmm", x, blocks, THREADS, args, WIDTH=width, HEADS=heads)
    return out


def spmm(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor:
    """:func:`legs.functional.sparse.spmm` for values that need no gradient, ``[rows, channels]``.

    Differentiable in ``x`` any number of times.
    """
    out: Tensor = _Product.call(x, values, pattern)
    return out


class _Product(Folded):
    once = False

    @staticmethod
    def compute(x: Tensor, values: Tensor, pattern: Pattern) -> Tensor:
        return product(pattern.rowptr, pattern.col, None, values, x)

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        super().setup_context(ctx, (inputs[0], None, *inputs[2:]), output)  # it is linear in x

    @staticmethod
    def gradients(
        grad: Tensor, needs: Any, x: None, values: Tensor, pattern: Pattern
    ) -> tuple[Tensor]:
        values = values.index_select(0, pattern.to_columns)
        return (_Product.call(grad, values, pattern.transpose(), stacked=True),)


def attend(
    hidden: Tensor, source: Tensor, target: Tensor, weight: Tensor, pattern: Pattern, slope: float
) -> Tensor:
    """Sums over neighbors weighted by attention, ``[nodes, heads * channels]``.

    The weights are the softmax over the entries of a row (every row needs one) of
    ``leaky_relu(source + target)``: scores of nodes as neighbors and as centers,
    ``[nodes, heads]``; heads are a power of two up to 32. ``weight`` is how many times each entry
    counts, ``[entries]``.
    """
    out: Tensor = _Attend.call(hidden, source, target, weight, slope, pattern)[0]
    return out


class _Attend(Folded):
    mapped = 3

    @staticmethod
    def compute(
        hidden: Tensor,
        source: Tensor,
        target: Tensor,
        weight: Tensor,
        slope: float,
        pattern: Pattern,
    ) -> tuple[Tensor, Tensor]:
        share = source.new_empty(len(source), len(weight), source.shape[2])
        args = [pattern.rowptr, pattern.col, weight, source, target, share]
        _Attend.run("attention_forward", hidden, share, args, slope)
        return product(pattern.rowptr, pattern.col, None, share, hidden), share

    @staticmethod
    def gradients(
        grad: Tensor, needs: Any, hidden: Tensor, source: Tensor, target: Tensor, *rest: Any
    ) -> tuple[Tensor, ...]:
        _, slope, pattern, share = rest
        change, of_target = torch.empty_like(share), source.new_empty(source.shape)
        args = [pattern.rowptr, pattern.col, source, target, share, hidden, grad]
        _Attend.run("attention_backward", hidden, share, [*args, change, of_target], slope)
        columns = (pattern.rowptr_t, pattern.col_t, pattern.to_columns)
        of_hidden = product(*columns, share, grad)
        of_source = product(*columns, change, torch.ones_like(source))
        return of_hidden, of_source, of_target

    @staticmethod
    def run(name: str, hidden: Tensor, share: Tensor, args: list[Any], slope: float) -> None:
        (models, nodes, channels), (_, entries, heads) = hidden.shape, share.shape
        args, blocks = [*args, models, nodes, entries, slope], -(-models * nodes // WARPS)
        constants = {"HEADS": heads, "WIDTH": channels // heads}
        launch.run("attention", name, hidden, blocks, THREADS, args, **constants)


def padded_rows(x: Tensor) -> int:
    """The number of rows to pad ``x`` to, so that :func:`linear` can cut them into parts."""
    return -(-x.shape[0] // PARTS) * PARTS if launch.applies(x) else x.shape[0]


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.mT``, ``[rows, outputs]``; on GPUs with rows in parts where that is possible.

    >>> linear(torch.ones(3, 2), torch.eye(2)).shape
    torch.Size([3, 2])
    """
    rows, possible = x.shape[0], (PARTS, PARTS // 2, PARTS // 4) if launch.applies(x) else ()
    parts = next((n for n in possible if rows % n == 0 and rows >= n * PART_ROWS), 0)
    if not parts:
        return x @ weight.mT
    cut = x.unflatten(0, (parts, -1))
    return torch.bmm(cut, weight.mT.expand(parts, -1, -1)).flatten(0, 1)


def norm_relu(x: Tensor, bias: Tensor, weight: Tensor, shift: Tensor, eps: float) -> Tensor:
    """``relu(layer_norm(x + bias, weight, shift))`` over the channels, ``[rows, channels]``."""
    if not launch.applies(x) or not x.numel():
        return F.layer_norm(x + bias, weight.shape, weight, shift, eps).relu()
    out: Tensor = _NormRelu.call(x, bias, weight, shift, eps)
    return out


class _NormRelu(Folded):
    mapped = 4

    @staticmethod
    def compute(x: Tensor, bias: Tensor, weight: Tensor, shift: Tensor, eps: float) -> Tensor:
        out = x.new_empty(x.shape)
        _NormRelu.run("norm_relu_forward", [x, bias, weight, shift, out], eps)
        return out

    @staticmethod
    def gradients(grad: Tensor, needs: Any, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        *layer, eps = rest
        change, sums = x.new_empty(x.shape), x.new_empty(len(x), _parts(x), 3, x.shape[2])
        _NormRelu.run("norm_relu_backward", [x, *layer, grad, change, sums], eps)
        return change, *sums.sum(1).unbind(1)

    @staticmethod
    def run(name: str, tensors: list[Tensor], eps: float) -> None:
        x, parts = tensors[0], _parts(tensors[0])
        args = [*tensors, x.shape[1], parts, eps]
        launch.run("norm_relu", name, x, len(x) * parts, THREADS, args, C=x.shape[2])


def _parts(x: Tensor) -> int:
    """Blocks that share the rows of a model."""
    return max(1, min(BLOCKS // x.shape[0], -(-x.shape[1] // WARPS)))


def batch_norm(
    x: Tensor, mask: Tensor, *layer: Tensor, eps: float, momentum: float, relu: bool = False
) -> Tensor:
    """Normalizes features of graphs or nodes, ``[rows, channels]``, in training.

    ``mask``, ``[rows]``, is one where a row enters the statistics, else zero; ``layer`` are weight,
    bias, running mean and running variance, of which the last two are updated in place.
    """
    out: Tensor = _BatchNorm.call(x, mask, *layer, eps, momentum, relu)[0]
    return out


class _BatchNorm(Folded):
    """The result, and ``[models, 3, channels]``: means, one over deviations, numbers of rows."""

    mapped, shared = 6, 1

    @staticmethod
    def compute(x: Tensor, mask: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        *layer, eps, momentum, relu = rest
        out = x.new_empty(*mask.shape, x.shape[2])
        stats = x.new_empty(len(mask), 3, x.shape[2])
        tensors, numbers = [mask, *layer, out, stats], (eps, momentum)
        _BatchNorm.run("norm_forward", x, out, tensors, 3, relu, *numbers)
        return out, stats

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        saved = (*inputs[:5], None, None, *inputs[7:])  # running averages may change meanwhile
        super().setup_context(ctx, saved, output)

    @staticmethod
    def gradients(
        grad: Tensor, needs: Any, x: Tensor, mask: Tensor, weight: Tensor, bias: Tensor, *rest: Any
    ) -> tuple[Tensor | None, ...]:
        *_, relu, stats = rest
        change = grad.new_empty(grad.shape) if needs[0] else None
        terms = stats.new_empty(len(stats), 2, stats.shape[2])  # gradients of weight and bias
        tensors = [mask, weight, bias, stats, grad, change, terms]
        _BatchNorm.run("norm_backward", x, grad, tensors, 2, relu)
        of_x = None if change is None else change.sum_to_size(x.shape)
        return of_x, None, terms[:, 0], terms[:, 1]

    @staticmethod
    def run(
        name: str, x: Tensor, out: Tensor, args: list[Any], terms: int, relu: bool, *numbers: float
    ) -> None:
        models, rows, channels = out.shape
        tiles = -(-channels // 32)
        parts = 1 if rows <= FEW_ROWS else min(PARTS, max(1, BLOCKS // (models * tiles)))
        sums = x.new_empty(models, parts, terms, channels) if parts > 1 else None
        args, blocks = [x, *args, sums, rows, channels, parts, *numbers], models * tiles * parts
        constants = {"SAME": int(len(x) < models), "RELU": int(relu)}
        for phase in (2,) if parts == 1 else (0, 1):
            launch.run("batch_norm", name, x, blocks, THREADS, args, PHASE=phase, **constants)


def mix(x: Tensor, bands: Tensor, weight: Tensor, absolute: int) -> Tensor:
    """``weight[0] * x + (weight[1:] * phi(bands)).sum(1)``, ``[rows, channels]``.

    ``bands`` are ``[rows, bands, channels]``, ``weight`` is ``[1 + bands, channels]``; ``phi`` is
    the absolute value of the first ``absolute`` bands, and leaves others as they are.
    """
    out: Tensor = _Mix.call(x, bands, weight, absolute)
    return out


class _Mix(Folded):
    mapped = 3

    @staticmethod
    def compute(x: Tensor, bands: Tensor, weight: Tensor, absolute: int) -> Tensor:
        out, constants = x.new_empty(x.shape), {"B": bands.shape[2], "ABSOLUTE": absolute}
        args, blocks = [x, bands, weight, out, *x.shape], -(-x.numel() // THREADS)
        launch.run("mix", "mix_forward", x, blocks, THREADS, args, **constants)
        return out

    @staticmethod
    def gradients(
        grad: Tensor, needs: Any, x: Tensor, bands: Tensor, weight: Tensor, absolute: int
    ) -> tuple[Tensor, ...]:
        (models, rows, channels), parts = x.shape, min(PARTS, _parts(x))
        of_x, of_bands = x.new_empty(x.shape), bands.new_empty(bands.shape)
        sums = x.new_empty(models, parts, *weight.shape[1:])
        args = [grad, x, bands, weight, of_x, of_bands, sums, parts, rows, channels]
        blocks = models * parts * -(-channels // 32)
        constants = {"B": bands.shape[2], "ABSOLUTE": absolute}
        launch.run("mix", "mix_backward", x, blocks, THREADS, args, **constants)
        return of_x, of_bands, sums.sum(1)
