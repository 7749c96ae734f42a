"""The ways that are compared: what scattering takes by itself, and the reference."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from legs import functional as fn
from legs.kernels import large, path_of, use

# Those of legs.kernels.use; the first two are compared.
Choice = Literal["auto", "reference", "fused"]
CHOICES: tuple[Choice, ...] = ("auto", "reference")


def paths_of(
    x: Tensor, graphs: int, edge_index: Tensor | None = None, lanes: int = 1
) -> dict[str, str]:
    """By choice, the path that the usual scattering of ``x`` takes.

    Args:
        x: signals, ``[nodes, channels]``.
        graphs: number of graphs.
        edge_index: ``[2, edges]``; where it is given, a reference that takes the products of
            :mod:`legs.kernels.large` is called so.
        lanes: columns that are diffused at once (default 1).

    >>> paths_of(torch.ones(3, 2, dtype=torch.float16), graphs=1)
    {'auto': 'reference', 'reference': 'reference'}
    """
    with use("auto"):
        path = str(path_of(x, graphs=graphs))
    if path == "reference" and edge_index is not None:
        walk = fn.random_walk(edge_index, None, x.shape[0], x.dtype)
        path = product_path(walk, x[:, :1].expand(-1, lanes))
    return {"auto": path, "reference": "reference"}


def product_path(walk: fn.Walk, x: Tensor, times: int = 1) -> str:
    """The path of so many products of a walk with ``x``: ``"cpu csr"``, or the reference."""
    with use("auto"):
        step = large.step_for(walk.pattern, walk.forth, x, times)
    return "reference" if step is None else f"{x.device.type} csr"


def reference_steps(x: Tensor, walk: fn.Walk, laziness: float, steps: int) -> Tensor:
    """What :func:`legs.kernels.large.diffusion_steps` is compared with: PyTorch's products."""
    with use("reference"), torch.no_grad():
        for _ in range(steps):
            x = fn.diffuse(x, walk, laziness)
        return x
