"""Edges sorted by row, and graphs shared out, in time linear in their number.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

from legs.kernels.cpu_jit import entry
from legs.kernels.cpu_vectors import at, put


@entry
def count_rows(row: Any, col: Any, rowptr: Any) -> bool:
    """Row pointers of entries in any order; false if an index is out of range."""
    size = rowptr.size - 1
    rowptr[:] = 0
    for e in range(row.size):
        i, j = at(row, e), at(col, e)
        if i < 0 or i >= size or j < 0 or j >= size:
            return False
        put(rowptr, i + 1, at(rowptr, i + 1) + 1)
    for i in range(size):
        rowptr[i + 1] += rowptr[i]
    return True


@entry
def sort_rows(row: Any, col: Any, rowptr: Any, place: Any, out: Any, order: Any) -> None:
    """Columns in the order of rows, and where each came from; ``place`` is overwritten."""
    place[:] = rowptr[:-1]
    for e in range(row.size):
        k = at(place, at(row, e))
        put(place, at(row, e), k + 1)
        put(out, k, at(col, e))
        put(order, k, e)


@entry
def share_out(ptr: Any, rowptr: Any, cuts: Any) -> None:
    """Cuts a batch into runs of graphs of about equal work; writes where they begin and end."""
    graphs, parts, last = ptr.size - 1, cuts.size - 1, rowptr.size - 1
    # A node costs about as much as eight entries. Whether ptr is in range, the kernels will say.
    whole = 8 * ptr[graphs] + rowptr[last]
    cuts[0], cuts[parts] = 0, graphs
    g = 0
    for k in range(1, parts):
        while g < graphs and parts * (8 * ptr[g] + rowptr[min(max(ptr[g], 0), last)]) < k * whole:
            g += 1
        cuts[k] = g
