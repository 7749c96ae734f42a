"""Products of sparse and dense matrices that are too large for the caches.

A product reads, for every entry of the sparse matrix, a row of the dense one, from memory. A core
waits for memory unless it asks early and for many lines at once, so the kernel prefetches the rows
of later entries: far ahead into the second-level cache, which takes more requests at a time than
the first, and shortly before use into the first. Sums stay in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from torch import Tensor

from legs.kernels.cpu import threads
from legs.kernels.cpu.graph import flat
from legs.kernels.cpu.jit import Constants, entry
from legs.kernels.cpu.simd import (
    LINE,
    address,
    at,
    cover,
    intrinsic,
    load,
    multiply_add,
    store,
    zeros,
)

MAX_LINES = 4  # of sums in registers; more would not fit where vectors have 32 bytes
NEAR, FAR = 8, 96  # lines to prefetch ahead of use; measured
FIRST, SECOND = 3, 2  # levels of cache, as LLVM numbers them
SMALL = 2**21  # bytes that stay in cache, where prefetching only costs time
LARGE = 2**22  # bytes from which on NumPy asks for huge pages
WORK_PER_THREAD = 2**21  # multiplications; waking a thread for fewer takes longer than they do


@dataclass(frozen=True)
class Block(Constants):
    """Channels that are summed at a time; the kernel is compiled for each."""

    lanes: int
    parts: int
    width: int  # lanes * parts
    near: int  # entries to prefetch ahead; 0 for none
    far: int


def product(rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor) -> Tensor:
    """The product of a CSR matrix and ``x``, ``[rows, channels]``.

    Rows are shared by :func:`torch.get_num_threads` threads. A row is summed in the order of its
    entries: any number of threads gives the same bits.

    Args:
        rowptr: ``[rows + 1]``, int64.
        col: ``[entries]``, int32 or int64. Not checked: must be row numbers of ``x``.
        value: ``[entries]``, of the dtype of ``x``.
        x: ``[columns, channels]``, float32 or float64.

    >>> rowptr, col = torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1])
    >>> product(rowptr, col, torch.tensor([2.0, 3.0, 4.0]), torch.tensor([[1.0], [10.0]]))
    tensor([[20.],
            [43.]])
    """
    rows, channels = len(rowptr) - 1, x.shape[1]
    out = _empty(rows, channels, x.dtype)
    if out.numel() == 0:
        return out
    arrays = tuple(flat(t) for t in (rowptr, col, value, x, out))
    first, last = arrays[0][[0, -1]]
    if value.shape != col.shape:
        raise ValueError(f"need one value per entry, {len(col)}; got {list(value.shape)}")
    if (first, last) != (0, len(col)):
        ends = f"{len(col)}, the number of entries; got {first} to {last}"
        raise ValueError(f"rowptr must run from 0 to {ends}")
    block = block_of(channels, x.dtype, x.numel() * x.itemsize > SMALL)
    count = min(torch.get_num_threads(), 1 + len(col) * channels // WORK_PER_THREAD)
    parts = [(0, rows)] if count == 1 else threads.split(arrays[0], count)
    threads.run([partial(_product, block, arrays, channels, *part) for part in parts])
    return out


@cache
def block_of(channels: int, dtype: torch.dtype, prefetch: bool = True) -> Block:
    """As many channels at a time as make few passes of about equal width.

    >>> [block_of(channels, torch.float32).width for channels in (3, 16, 20, 48, 80)]
    [2, 16, 16, 48, 48]
    """
    lanes, parts = cover(channels, dtype.itemsize, MAX_LINES)
    near, far = (max(1, lines // parts) if prefetch else 0 for lines in (NEAR, FAR))
    return Block(lanes, parts, lanes * parts, near, far)


def _empty(rows: int, channels: int, dtype: torch.dtype) -> Tensor:
    """An empty tensor; a large one begins with a cache line and has huge pages.

    NumPy asks for huge pages where the system grants them. They are handed out four times as fast,
    and save random reads the page walk: a third of a product's time.
    """
    size = rows * channels * dtype.itemsize
    if size < LARGE:
        return torch.empty(rows, channels, dtype=dtype)
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return torch.from_numpy(memory[start : start + size]).view(dtype).view(rows, channels)


@intrinsic
def _prefetch(typingctx, array, index, level):
    """Fetches the cache line of an element into a level of cache (a constant); never fails."""
    if not isinstance(level, types.IntegerLiteral):
        return None

    def build(context, builder, sig, args):
        place, number = address(context, builder, array, *args[:2]), ir.IntType(32)
        place = builder.bitcast(place, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, data_cache = number(0), number(1)
        builder.call(function, [place, read, number(level.literal_value), data_cache])
        return context.get_dummy_value()

    return types.void(array, types.intp, level), build


@entry
def _product(block, arrays, channels, begin, end):
    rowptr, col, value, x, out = arrays
    last = col.size - 1
    for i in range(begin, end):
        for done in range(0, channels, block.width):
            first = min(done, channels - block.width)
            total = zeros(x, block.lanes, block.parts)
            for e in range(at(rowptr, i), at(rowptr, i + 1)):
                if block.far != 0:
                    far = np.int64(at(col, min(e + block.far, last))) * channels + first
                    near = np.int64(at(col, min(e + block.near, last))) * channels + first
                    for k in range(0, block.width, block.lanes):
                        _prefetch(x, far + k, SECOND)
                        _prefetch(x, near + k, FIRST)
                row = load(total, x, np.int64(at(col, e)) * channels + first)
                total = multiply_add(row, at(value, e), total)
            store(total, out, i * channels + first)
