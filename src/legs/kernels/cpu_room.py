"""The buffers of a kernel: one array, and where in it everything is.

They are as large as the largest graph of the range needs, and stay in cache while a graph of usual
size is worked on.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from legs.kernels.cpu_jit import inner

# What a kernel finds wrong with its graphs.
DISORDER = 1
LEFT = 2


class Room(NamedTuple):
    """Where in the work array the buffers begin."""

    link: int  # [entries] weights of the graph
    degree: int  # [n]
    inverse: int  # [n] of the degree
    move: int  # [n] see cpu_graph.Graph
    times: int  # [n] how many nodes each stands for, if not one
    reach: int  # [n] how often the energy counts a node
    spare: int  # [n]
    flip: int  # [row] -1 for wavelets, 1 for the signal
    root: int  # [units of a group] root of the energy
    root_lanes: int  # [lanes] the same, of the lanes of a block
    moments: int  # [lanes, 4], or their gradients
    mean: int  # [units of a group, row] of the first order
    z_first: int  # [units of a group, n, row]
    signal: int  # [blocks, n, lanes] the parents, then their gradients
    states: int  # [steps, n, lanes] the parents of a block, diffused
    z_second: int  # [n, children, lanes] of a block
    powers: int  # [n, steps, channels] if they are not given
    ping: int  # [2, n, lanes] of the backward recurrence
    extra: int  # [n, row]
    bank_first: int  # [units, steps, row]
    bank_second: int  # [groups, blocks, steps, children, lanes]
    found_first: int  # gradients of the banks
    found_second: int
    total: int


@inner
def make_room(size: Any, nodes: int, entries: int, given: bool, backward: bool) -> Any:
    """Lays out the buffers, each from the start of a cache line."""
    width = max(size.parents, 1) * size.lanes
    block = nodes * size.lanes
    first = size.units * size.steps * size.row
    second = size.groups * size.blocks * size.steps * width
    needed = (
        entries + nodes if size.weighted else 0,
        nodes,
        nodes,
        nodes,
        nodes if size.counted else 0,
        nodes,
        nodes,
        size.row,
        size.group,
        size.lanes,
        4 * max(size.row, width),
        size.group * size.row,
        (size.group * nodes + 7) * size.row,
        max(size.blocks, 1) * block,
        size.steps * block,
        nodes * width,
        0 if given else nodes * size.steps * size.channels + size.lanes,
        2 * block if backward else 0,
        nodes * size.row if backward else 0,
        first,
        second,
        first if backward else 0,
        second if backward else 0,
    )
    places = np.empty(len(needed) + 1, np.int64)
    places[0] = 0
    for k, count in enumerate(needed):
        places[k + 1] = places[k] + (count + 15) // 16 * 16
    return Room(
        places[0],
        places[1],
        places[2],
        places[3],
        places[4],
        places[5],
        places[6],
        places[7],
        places[8],
        places[9],
        places[10],
        places[11],
        places[12],
        places[13],
        places[14],
        places[15],
        places[16],
        places[17],
        places[18],
        places[19],
        places[20],
        places[21],
        places[22],
        places[23],
    )


@inner
def make_work(like: Any, size: int) -> Any:
    """An array of ``like``'s type that begins with a cache line."""
    room = np.empty(size + 64 // like.itemsize, like.dtype)
    skip = (-room.ctypes.data % 64) // like.itemsize
    return room[skip : skip + size]


@inner
def largest(arrays: Any, begin: int, end: int) -> Any:
    """Whether the graphs are in order, and nodes and entries of the largest ones of a range."""
    rowptr, ptr = arrays.rowptr, arrays.ptr
    sound = rowptr[0] == 0 and rowptr[-1] == arrays.col.size
    sound = sound and ptr[0] == 0 and ptr[-1] == rowptr.size - 1
    for g in range(ptr.size - 1):
        sound = sound and ptr[g] <= ptr[g + 1]
    if not sound:
        return DISORDER, 1, 0
    nodes, entries = 1, 0
    for g in range(begin, end):
        for i in range(ptr[g], ptr[g + 1]):
            sound &= rowptr[i] <= rowptr[i + 1]
        nodes = max(nodes, ptr[g + 1] - ptr[g])
        entries = max(entries, rowptr[ptr[g + 1]] - rowptr[ptr[g]])
    return 0 if sound else DISORDER, nodes, entries
