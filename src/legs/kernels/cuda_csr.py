"""Steps of a walk on large graphs, on NVIDIA GPUs: ``sources/csr.cu``."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from legs.kernels.cuda import source_of

THREADS = 256
_TYPES = {torch.float32: "float", torch.float64: "double"}
_COLUMNS = {torch.int32: "int", torch.int64: "long long"}


@cache
def _compiled(dtype: torch.dtype, column: torch.dtype, width: int, device: int) -> Any:
    known = {"real": _TYPES[dtype], "column_t": _COLUMNS[column], "WIDTH": width}
    header = "".join(f"#define {key} {value}\n" for key, value in known.items())
    with torch.cuda.device(device):
        return torch.cuda._compile_kernel(header + source_of("csr.cu"), "step")


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
    if blocks:
        kernel = _compiled(x.dtype, col.dtype, width, device)
        arguments = [rowptr, col, value, x, out, rows, pieces, keep, move]
        with torch.cuda.device(device):
            kernel((blocks, 1, 1), (THREADS, 1, 1), arguments)
    return out
