"""Filter banks of the lazy walk on GPUs: ``bank.cu``, a block of threads per graph and channels."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from legs.kernels.bank import Graph
from legs.kernels.gpu import launch

# The number of nodes up to which they serve, if there is one; channels and threads of a block. What
# a thread keeps in registers follows.
CLASSES = ((32, 32, 256), (128, 16, 512), (512, 8, 1024), (2048, 4, 1024), (None, 8, 1024))
MAX_REGISTERS = 64  # bands times items of a thread


def run(graph: Graph, x: Tensor, filters: Tensor | None, scale: Tensor | None, out: Tensor) -> None:
    """Writes the bank, its adjoint or the states, as :func:`legs.kernels.cpu.bank.run`.

    One launch per class of sizes.
    """
    mode = "STATES" if filters is None else "ADJOINT" if x.dim() == 4 else "FORWARD"
    states, bands, own = (out.shape[1], 1, 1) if filters is None else filters.shape[1:]
    models, nodes, channels = len(out), x.shape[1], x.shape[-1]
    graphs, above = graph.ptr.shape[0] - 1, -1
    constants: dict[str, Any] = {"MODE": mode, "B": bands, "K": states, "PER_CHANNEL": int(own > 1)}
    constants |= {"WEIGHTED": int(graph.weight is not None), "SCALED": int(scale is not None)}
    tensors = [x, graph.rowptr, graph.col, graph.weight, graph.ptr, graph.degree, scale, filters]
    for largest, width, threads in CLASSES:
        items, chunks = (largest or 0) * width // threads, -(-channels // width)
        shared = states * bands * (width if own > 1 else 1) + 2 * width * (largest or 0)
        shared *= x.element_size()
        too_many = shared > launch.max_shared(x.device.index) or items * bands > MAX_REGISTERS
        if items and too_many:
            continue
        scratch = None if items else x.new_empty(2 * models * chunks * nodes * width)
        args: list[Any] = [*tensors, scratch, out, models, len(x), graphs, nodes, channels]
        args += [above, largest or 2**31 - 1]
        blocks, sizes = models * graphs * chunks, {**constants, "CH": width, "ITEMS": items}
        launch.run("bank", "bank", x, blocks, threads, args, shared, **sizes)
        if largest is None or (graph.largest is not None and graph.largest <= largest):
            break
        above = largest
