r"""Bytes and operations that a task cannot do without, counted by formula.

With :math:`N` nodes, :math:`E` entries (both directions of every edge), :math:`G` graphs,
:math:`C` channels, :math:`J` scales, :math:`m` steps, :math:`B` models, numbers of :math:`w` bytes,
:math:`p = J(J-1)/2` pairs, :math:`P = 1 + J + p` paths and :math:`L = B(J-1)C` signals that are
diffused again (the last wavelet has no children). Indices take 4 bytes, whatever a method uses.

A *step of diffusion* on one graph: values gathered :math:`ECw`, indices
:math:`4(E + N + 1)`, rows written :math:`NCw`.

*Scattering*, order two, four moments. One multiplication or addition is an operation.

========================  =====================  ==========================================
work                      operations             backward
========================  =====================  ==========================================
walk powers (if computed) :math:`m (2E + N) C`   none: signals need no gradient
first order               :math:`2JmNCB`         the same (the filters' gradient)
walking, second order     :math:`m (2E + N) L`   the same (the transposed walk)
second order              :math:`2pmNCB`         twice (the filters' and the states' gradient)
moments                   :math:`10PNCB`         the same
========================  =====================  ==========================================

Bytes: signals, precomputed walk powers and indices are read, moments written; backward reads all
of these again. Nothing between is counted: it can stay in cache, as graphs of up to some
thousand nodes do. So this is a bound from below, and the shares reached are modest by design.
"""

from __future__ import annotations

from typing import NamedTuple

INDEX = 4
OPERATIONS_PER_MOMENT = 10  # modulus, centring, three products, four sums, scaling


class Cost(NamedTuple):
    """What a task costs at least."""

    bytes: int
    operations: int


def diffusion_cost(nodes: int, edges: int, channels: int, steps: int = 1, size: int = 4) -> Cost:
    """Of some steps of the lazy walk on one graph.

    >>> diffusion_cost(nodes=10, edges=100, channels=16)
    Cost(bytes=7484, operations=3680)
    """
    moved = edges * channels * size + INDEX * (edges + nodes + 1) + nodes * channels * size
    return Cost(steps * moved, steps * (2 * edges + 3 * nodes) * channels)


def scattering_cost(
    nodes: int,
    edges: int,
    graphs: int,
    channels: int,
    *,
    scales: int = 5,
    steps: int = 16,
    models: int = 1,
    powers: bool = True,
    train: bool = True,
    size: int = 4,
) -> Cost:
    """Of scattering moments of a batch, order two.

    ``edges`` counts both directions, ``models`` share the graphs, ``powers``: with precomputed walk
    powers, ``train``: with backward, ``size``: bytes of a number.
    """
    pairs = scales * (scales - 1) // 2
    paths = 1 + scales + pairs
    values = nodes * channels * models
    lanes = models * (scales - 1) * channels
    visit = 2 * edges + nodes
    first, second = 2 * scales * steps * values, 2 * pairs * steps * values
    walking, moments = steps * visit * lanes, OPERATIONS_PER_MOMENT * paths * values
    operations = first + second + walking + moments
    if not powers:
        operations += steps * visit * channels
    out = models * graphs * paths * channels * 4 * size
    read = nodes * channels * size + INDEX * (edges + nodes + 1)
    if powers:
        read += nodes * steps * channels * size
    moved = read + out
    if train:
        operations += first + 2 * second + walking + moments
        moved += read + out
    return Cost(moved, operations)
