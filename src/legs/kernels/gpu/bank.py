"""Filter banks of the lazy walk on GPUs: ``bank.cu``, a block of threads per graph and channels."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from legs.kernels.bank import Graph
from legs.kernels.gpu import launch

# By the number of nodes up to which they serve: channels and threads of a block. What a thread
# keeps in registers follows.
CLASSES = ((32, 32, 256), (128, 16, 512), (512, 8, 1024), (2048, 4, 1024))
ANY = (8, 1024)
MAX_REGISTERS = 64  # bands times items of a thread


def run(graph: Graph, x: Tensor, filters: Tensor, scale: Tensor | None, adjoint: bool) -> Tensor:
    """The bank ``[models, nodes, bands, channels]``, or its adjoint ``[models, nodes, channels]``.

    Args:
        graph: on the device of ``x``.
        x: ``[models, nodes, channels]``; for the adjoint ``[models, nodes, bands, channels]``. One
            model in place of many if it is the same for all.
        filters: ``[models, states, bands, channels]``, or one channel for all.
        scale: of rows, ``[nodes]``: divided by before, and multiplied with after.
        adjoint: whether to compute the adjoint.
    """
    models, _, bands, _ = filters.shape
    out = x.new_empty(models, x.shape[1], *[] if adjoint else [bands], x.shape[-1])
    _launch("ADJOINT" if adjoint else "FORWARD", graph, x, x, filters, scale, out)
    return out


def gradient(
    graph: Graph, x: Tensor, sizes: tuple[int, int], scale: Tensor | None, grad: Tensor
) -> Tensor:
    """The gradient of filters with ``sizes``: states, channels or 1; from that of the bank."""
    filters = grad.new_empty(len(grad), sizes[0], grad.shape[2], sizes[1])  # of which none is used
    totals = []
    for partial in _launch("GRADIENT", graph, x, grad, filters, scale):
        total = partial.sum(1)  # [models, chunks, states, bands, width or 1]
        total = total.movedim(1, 3).flatten(3) if sizes[1] > 1 else total.sum(1)
        totals.append(total[..., : sizes[1]])
    return sum(totals[1:], totals[0])


def _launch(
    mode: str,
    graph: Graph,
    x: Tensor,
    grad: Tensor,
    filters: Tensor,
    scale: Tensor | None,
    out: Tensor | None = None,
) -> list[Tensor]:
    """One launch per class of sizes, which write to ``out``, or else to a tensor each."""
    (models, states, bands, own), (nodes, channels) = filters.shape, (x.shape[1], x.shape[-1])
    graphs, above, written = graph.ptr.shape[0] - 1, -1, []
    sizes: dict[str, Any] = {"MODE": mode, "B": bands, "K": states, "PER_CHANNEL": int(own > 1)}
    sizes |= {"WEIGHTED": int(graph.weight is not None), "SCALED": int(scale is not None)}
    tensors = [x, grad, graph.rowptr, graph.col, graph.weight, graph.ptr, graph.inverse, scale]
    for largest, width, threads in (*CLASSES, (None, *ANY)):
        items, chunks = (largest or 0) * width // threads, -(-channels // width)
        own_width = width if own > 1 else 1
        shared = states * bands * own_width + 2 * width * (largest or 0)
        shared += 2 * bands * own_width * (threads // 32) if mode == "GRADIENT" else 0
        shared *= x.element_size()
        too_many = shared > launch.max_shared(x.device.index) or items * bands > MAX_REGISTERS
        if items and too_many:
            continue
        scratch = None if items else x.new_empty(2 * models * chunks * nodes * width)
        if out is None:
            written.append(x.new_zeros(models, graphs, chunks, states, bands, own_width))
        args: list[Any] = [*tensors, filters, scratch, written[-1] if out is None else out]
        args += [models, x.shape[0], graphs, nodes, channels, above, largest or 2**31 - 1]
        blocks, constants = models * graphs * chunks, {**sizes, "CH": width, "ITEMS": items}
        launch.run("bank", "bank", x, blocks, threads, args, shared, **constants)
        if largest is None or (graph.largest is not None and graph.largest <= largest):
            break
        above = largest
    return written
