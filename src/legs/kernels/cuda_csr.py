"""Steps of a walk on large graphs, on NVIDIA GPUs: ``sources/csr.cu``."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from legs.kernels.cuda_launch import TYPES, Kernel

THREADS = 256
_COLUMNS = {torch.int32: "int", torch.int64: "long long"}


@cache
def _compiled(dtype: torch.dtype, column: torch.dtype, width: int, device: int) -> Kernel:
    known = {"real": TYPES[dtype], "column_t": _COLUMNS[column], "WIDTH": width}
    return Kernel(("csr.cu",), "step", device, known)


def step(
    rowptr: Tensor,
    col: Tensor,
    value: Tensor,
    x: Tensor,
    keep: float = 0.0,
    move: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """``keep * x + move * S x`` for a CSR matrix ``S``, ``[rows, channels]``; ``x`` contiguous."""
    channels = x.shape[1]
    width = next(w for w in (4, 2, 1) if channels % w == 0)
    rows, pieces = rowptr.shape[0] - 1, channels // width
    out = x.new_empty(rows, channels) if out is None else out
    device = x.device.index
    blocks = -(-rows * pieces // THREADS)
    arguments = [rowptr, col, value, x, out, rows, pieces, float(keep), float(move)]
    with torch.cuda.device(device):
        _compiled(x.dtype, col.dtype, width, device)(blocks, THREADS, arguments)
    return out
