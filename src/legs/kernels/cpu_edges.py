"""Edges sorted by row, and graphs shared out, in time linear in their number.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

from legs.kernels.cpu_jit import entry
from legs.kernels.cpu_vectors import at, put


@entry
def sort_rows(row: Any, col: Any, rowptr: Any, place: Any, out: Any, order: Any) -> bool:
    """Compressed rows of entries in any order; false if an index is out of range.

    Args:
        row: of each entry.
        col: of each entry.
        rowptr: written, the first entry of each row.
        place: overwritten, a number a row.
        out: written, columns in the order of rows.
        order: written, where each came from; empty if nobody wants to know.
    """
    size = rowptr.size - 1
    rowptr[:] = 0
    for e in range(row.size):
        i, j = at(row, e), at(col, e)
        if i < 0 or i >= size or j < 0 or j >= size:
            return False
        put(rowptr, i + 1, at(rowptr, i + 1) + 1)
    for i in range(size):
        rowptr[i + 1] += rowptr[i]
        place[i] = rowptr[i]
    for e in range(row.size):
        k = at(place, at(row, e))
        put(place, at(row, e), k + 1)
        put(out, k, at(col, e))
        if order.size:
            put(order, k, e)
    return True


@entry
def share_out(ptr: Any, rowptr: Any, groups: int, found: Any) -> int:
    """Cuts a batch into runs of graphs of about equal work; gives how many there are.

    Args:
        ptr: the first node of each graph.
        rowptr: the first entry of each node.
        groups: of units, all of which are in every run.
        found: written, ``[runs at most, 4]``: first and last graph, first and last group.
    """
    graphs, parts, last = ptr.size - 1, found.shape[0], rowptr.size - 1
    # A node costs about as much as eight entries. Whether ptr is in range, the kernels will say.
    whole = 8 * ptr[graphs] + rowptr[last]
    before, g, runs = 0, 0, 0
    for k in range(1, parts + 1):
        while g < graphs and parts * (8 * ptr[g] + rowptr[min(max(ptr[g], 0), last)]) < k * whole:
            g += 1
        if k == parts:
            g = graphs
        if before < g:
            found[runs, 0], found[runs, 1], found[runs, 2], found[runs, 3] = before, g, 0, groups
            before = g
            runs += 1
    return runs
