"""The backends that are compared: what scattering takes by itself, and the reference."""

from __future__ import annotations

import torch
from torch import Tensor

from legs import functional as fn
from legs.kernels.csr import product
from legs.kernels.op import Backend, use_fused

CHOICES: tuple[Backend, ...] = ("auto", "reference")


def paths_of(
    x: Tensor, graphs: int, edge_index: Tensor | None = None, lanes: int = 1
) -> dict[str, str]:
    """By backend, the path that the usual scattering of ``x`` takes.

    Args:
        x: signals, ``[nodes, channels]``.
        graphs: number of graphs.
        edge_index: ``[2, edges]``; where it is given, a reference that takes the products of
            :mod:`legs.kernels.csr` is called so.
        lanes: columns that are diffused at once (default 1).

    >>> paths_of(torch.ones(3, 2, dtype=torch.float16), graphs=1)
    {'auto': 'reference', 'reference': 'reference'}
    """
    path = x.device.type if use_fused("auto", x, num_graphs=graphs) else "reference"
    if path == "reference" and edge_index is not None:
        walk = fn.random_walk(edge_index, None, x.shape[0], x.dtype)
        path = product_path(walk, x[:, :1].expand(-1, lanes))
    return {"auto": path, "reference": "reference"}


def product_path(walk: fn.Walk, x: Tensor) -> str:
    """The path of a product of a walk with ``x``: ``"cpu csr"``, or the reference."""
    found = product(walk.pattern, walk.forth, x)
    return "reference" if found is None else f"{x.device.type} csr"


@torch.no_grad()
def diffusion_steps(x: Tensor, walk: fn.Walk, laziness: float, steps: int) -> Tensor:
    """The state after some steps of a lazy walk."""
    for _ in range(steps):
        x = fn.diffuse(x, walk, laziness)
    return x
