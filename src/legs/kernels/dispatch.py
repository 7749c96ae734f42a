"""Which way scattering is computed: fused kernels where they apply, else the reference.

The reference is :mod:`legs.functional`: plain PyTorch, for everything. The fused kernels compute
the usual case (normalized moments, order two) and need nothing but the filters' gradient.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from legs.kernels import cpu, cuda

Choice = Literal["auto", "reference", "fused"]

# By device: nodes of a batch from which the fused kernels pay (they are compiled at first use, in
# seconds), and nodes a graph up to which they do (a graph is the work of one thread on the
# CPU, of one block on the GPU). Measured: docs/performance.md.
CROSSOVERS = {"cpu": (1_000, 1_000_000), "cuda": (1_000, 4_000)}

# One choice for all threads: backward passes on a GPU run in a thread of their own.
_choice: Choice = "auto"


class _Use:
    """Undoes a choice at the end of a ``with`` block."""

    def __init__(self, before: Choice) -> None:
        self.before = before

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        use(self.before)


def use(choice: Choice) -> _Use:
    """Chooses how scattering is computed from here on, or within a ``with`` block; in all threads.

    Args:
        choice: ``"auto"`` (the start) takes the fused kernels where they apply and pay,
            ``"reference"`` never, ``"fused"`` wherever they apply.

    >>> with use("reference"):
    ...     chosen()
    'reference'
    >>> chosen()
    'auto'
    """
    if choice not in ("auto", "reference", "fused"):
        raise ValueError(f'use "auto", "reference" or "fused"; got {choice!r}')
    global _choice
    before, _choice = _choice, choice
    return _Use(before)


def chosen() -> Choice:
    """What :func:`use` chose last."""
    return _choice


def path_of(
    x: Tensor,
    edge_weight: Tensor | None = None,
    graphs: int = 1,
    copies: Tensor | None = None,
) -> Literal["reference", "cpu", "cuda"]:
    """The way that signals ``x`` on so many graphs would be scattered.

    Args:
        x: signals, ``[nodes, channels]``.
        edge_weight: ``[edges]`` or ``None``.
        graphs: number of graphs (default 1).
        copies: how many nodes each one stands for, ``[nodes]`` (default one). Merged nodes take
            the way that all of them would have taken.

    Returns:
        ``"reference"``, or the fused kernels' device. It depends on sizes and types alone, never on
        what ran before: the same call gives the same bits. What the module computes (order,
        moments) is for the caller to judge.
    """
    if torch.compiler.is_compiling() or chosen() == "reference":
        return "reference"
    if x.dtype not in (torch.float32, torch.float64) or _needs_gradient(x):
        return "reference"
    if edge_weight is not None and _needs_gradient(edge_weight):
        return "reference"
    device = x.device.type
    if chosen() == "auto" and not _pays(device, x.shape[0], graphs, copies):
        return "reference"
    if device == "cpu" and cpu.available():
        return "cpu"
    if device == "cuda" and cuda.available():
        return "cuda"
    return "reference"


def _pays(device: str, nodes: int, graphs: int, copies: Tensor | None) -> bool:
    least, largest = CROSSOVERS.get(device, (0, 0))
    if nodes > largest * max(graphs, 1):
        return False
    if copies is None:
        return nodes >= least
    # To ask a GPU for a number takes longer than to compile its kernels is worth.
    return device != "cpu" or float(copies.sum()) >= least


def _needs_gradient(x: Tensor) -> bool:
    # A tensor that is mapped over models, or traced by another transform, may hide that it does.
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(x)
    return wrapped or (x.requires_grad and torch.is_grad_enabled())
