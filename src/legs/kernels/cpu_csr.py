"""Steps of a walk on large graphs, on the CPU.

A step reads, for every entry of the matrix, the channels of some other node: from memory, if the
graph is large. A core waits for memory unless it has asked early and for many things at once, so
the kernel asks for what later entries will need: far ahead into the second-level cache, which takes
more requests at a time than the first, and shortly before use into the first. Sums stay in
registers.

Importing this module imports numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from torch import Tensor

from legs.kernels import cpu_threads
from legs.kernels.cpu_jit import entry, inlined
from legs.kernels.cpu_shape import constants, source_checksum
from legs.kernels.cpu_vectors import at, intrinsic, load, multiply_add, store, zeros

LINE = 64  # bytes of a line of the caches, and of the widest vectors
MOST_LINES = 4  # of sums in registers; more would not fit where vectors have 32 bytes
NEAR, FAR = 8, 96  # lines asked for ahead of use; measured
FIRST, SECOND = 3, 2  # levels of cache, as the compiler numbers them
SMALL = 2**21  # bytes that stay in cache, where asking ahead only costs time
LARGE = 2**22  # bytes from which on NumPy asks for large pages
WORK_OF_A_THREAD = 2**21  # multiplications; to wake a thread for fewer takes longer than they do
_REALS: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}


@constants
@dataclass(frozen=True)
class Block:
    """Channels that are summed at a time; a kernel is compiled for each (see ``cpu_shape``)."""

    lanes: int
    parts: int
    width: int  # lanes * parts
    near: int  # entries
    far: int
    source: int  # checksum


def step(
    rowptr: Tensor,
    col: Tensor,
    value: Tensor,
    x: Tensor,
    keep: float = 0.0,
    move: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """``keep * x + move * S x`` for a CSR matrix ``S``, ``[rows, channels]``.

    Rows are shared by :func:`torch.get_num_threads` threads; a row is summed in the order of its
    entries, so that any number of threads gives the same bits.

    Args:
        rowptr: ``[rows + 1]``, int64.
        col: ``[entries]``, int32 or int64. Not checked: must lie within the rows of ``x``.
        value: ``[entries]``, of the type of ``x``.
        x: ``[columns, channels]``, float32 or float64, contiguous.
        keep: share of ``x`` itself (default 0); any other needs as many rows as columns.
        move: share of the product (default 1).
        out: where to write the result, contiguous and apart from ``x`` (default: a new tensor).

    >>> rowptr, col = torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1])
    >>> step(rowptr, col, torch.tensor([2.0, 3.0, 4.0]), torch.tensor([[1.0], [10.0]]))
    tensor([[20.],
            [43.]])
    """
    rows, channels = rowptr.shape[0] - 1, x.shape[1]
    _check(rowptr, col, value, x, keep, out)
    out = room_for(rows, channels, x.dtype) if out is None else out
    if out.numel() == 0:
        return out
    arrays = [t.numpy(force=True).reshape(-1) for t in (rowptr, col, value, x, out)]
    if arrays[0][0] != 0 or arrays[0][-1] != col.shape[0]:
        raise ValueError(
            f"rowptr must run from 0 to {col.shape[0]}, the number of entries; got "
            f"{int(rowptr[0])} to {int(rowptr[-1])}"
        )
    real = _REALS[x.dtype]
    block = block_of(channels, x.dtype, x.numel() * x.itemsize > SMALL)
    threads = min(torch.get_num_threads(), 1 + col.shape[0] * channels // WORK_OF_A_THREAD)
    parts = [(0, rows)] if threads == 1 else cpu_threads.split(arrays[0], threads)
    shares = real(keep), real(move)
    cpu_threads.run([partial(_rows, block, *arrays, channels, *shares, *part) for part in parts])
    return out


@cache
def block_of(channels: int, dtype: torch.dtype, ahead: bool = True) -> Block:
    """So many channels at a time that they are done in few passes of about equal width.

    ``ahead``: whether to ask for lines ahead of use (default); else ``far`` and ``near`` are zero.

    >>> [block_of(channels, torch.float32).width for channels in (3, 16, 20, 48, 80)]
    [2, 16, 16, 48, 48]
    """
    lanes = LINE // dtype.itemsize
    while lanes > channels:
        lanes //= 2
    passes = -(-channels // (lanes * MOST_LINES))
    # The last pass may overlap with the one before, but none may reach beyond the channels.
    parts = min(channels // lanes, -(-channels // (passes * lanes)))
    near, far = (max(1, lines // parts) if ahead else 0 for lines in (NEAR, FAR))
    return Block(lanes, parts, lanes * parts, near, far, source_checksum())


def room_for(rows: int, channels: int, dtype: torch.dtype) -> Tensor:
    """An empty tensor; a large one at the start of a line and in large pages.

    Large pages, which NumPy asks for where the system grants them, are handed out four times as
    fast, and spare random reads the search for their page: a third of a step's time.

    >>> room_for(3, 2, torch.float64).shape
    torch.Size([3, 2])
    """
    size = rows * channels
    if size * dtype.itemsize < LARGE:
        return torch.empty(rows, channels, dtype=dtype)
    room = np.empty(size + LINE // dtype.itemsize, _REALS[dtype])
    start = -room.ctypes.data % LINE // room.itemsize
    return torch.from_numpy(room[start : start + size]).view(rows, channels)


def _check(
    rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, keep: float, out: Tensor | None
) -> None:
    """Compiled code looks at no shapes: they must be right here."""
    given = {"rowptr": rowptr, "col": col, "value": value, "x": x, "out": out}
    rows = rowptr.shape[0] - 1
    if x.dtype not in _REALS:
        raise ValueError(f"x must be float32 or float64; got {x.dtype}")
    if rowptr.dtype != torch.int64 or col.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"rowptr must be int64, col int32 or int64; got {rowptr.dtype} and {col.dtype}"
        )
    if value.dtype != x.dtype or value.shape != col.shape:
        raise ValueError(
            f"value must be {x.dtype} of shape {list(col.shape)}; got {value.dtype} of "
            f"{list(value.shape)}"
        )
    if keep and rows != x.shape[0]:
        raise ValueError(f"x must have {rows} rows, as S has, to be kept; got {x.shape[0]}")
    for name, tensor in given.items():
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous (use .contiguous())")
    if out is None:
        return
    if out.dtype != x.dtype or list(out.shape) != [rows, x.shape[1]]:
        raise ValueError(
            f"out must be {x.dtype} of shape {[rows, x.shape[1]]}; got {out.dtype} of "
            f"{list(out.shape)}"
        )
    if out.numel() and out.data_ptr() == x.data_ptr():
        raise ValueError("out must not be x: rows still to come read it")


@intrinsic
def _ask(typingctx: Any, array: Any, index: Any, level: Any) -> Any:
    """Has the line of a number fetched into a level of cache (a constant); never fails."""
    if not isinstance(level, types.IntegerLiteral):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(array)(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, of_data = number(0), number(1)
        builder.call(function, [address, to_read, number(level.literal_value), of_data])
        return context.get_dummy_value()

    return types.void(array, types.intp, level), build


@inlined
def _sum_row(
    block: Any, rowptr: Any, col: Any, value: Any, x: Any, channels: int, i: int, first: int
) -> Any:
    """The channels from ``first`` on of row ``i`` of the product."""
    last = col.size - 1
    total = zeros(x, block.lanes, block.parts)
    for e in range(at(rowptr, i), at(rowptr, i + 1)):
        if block.far != 0:
            far = np.int64(at(col, min(e + block.far, last))) * channels + first
            near = np.int64(at(col, min(e + block.near, last))) * channels + first
            for part in range(block.parts):
                _ask(x, far + part * block.lanes, SECOND)
                _ask(x, near + part * block.lanes, FIRST)
        there = np.int64(at(col, e)) * channels + first
        total = multiply_add(load(total, x, there), at(value, e), total)
    return total


@entry
def _rows(
    block: Any,
    rowptr: Any,
    col: Any,
    value: Any,
    x: Any,
    out: Any,
    channels: int,
    keep: Any,
    move: Any,
    begin: int,
    end: int,
) -> None:
    for i in range(begin, end):
        first = 0
        while first < channels:
            first = min(first, channels - block.width)
            total = _sum_row(block, rowptr, col, value, x, channels, i, first) * move
            if keep != 0:
                total = multiply_add(load(total, x, i * channels + first), keep, total)
            store(total, out, i * channels + first)
            first += block.width
