"""Products and diffusions on large single graphs, near the rate of the machine's memory.

Importing this module lets :func:`legs.functional.sparse.spmm`, and so all of
:mod:`legs.functional`, take these products where they pay.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Parameter

from legs.functional import Walk, diffuse
from legs.functional.sparse import Pattern, products
from legs.kernels import cpu, cuda
from legs.kernels.dispatch import chosen

# A product pays if it has as much work as 2**20 multiplications. To read an entry is as much as 16,
# and below, what is gained does not make up for the time to compile.
LEAST_WORK = 2**20
ENTRY_WORK = 16

Step = Callable[[Tensor, Tensor, Tensor, Tensor, float, float, Tensor | None], Tensor]


@torch.no_grad()
def diffusion_steps(x: Tensor, walk: Walk, laziness: float, steps: int) -> Tensor:
    r"""The state after some steps of a lazy walk, :math:`P_\alpha^{\mathrm{steps}} x`.

    Needs memory for two states besides ``x``, and four bytes an entry; keeps no gradient.

    Args:
        x: ``[nodes, ..., channels]``.
        walk: from :func:`~legs.functional.random_walk`, of the same type as ``x``.
        laziness: :math:`\alpha`.
        steps: how many steps to take, 0 or more.

    >>> from legs.functional import random_walk
    >>> walk = random_walk(torch.tensor([[0, 1], [1, 0]]), None, num_nodes=3)
    >>> diffusion_steps(torch.tensor([[1.0], [0.0], [5.0]]), walk, laziness=0.5, steps=4)
    tensor([[0.5000],
            [0.5000],
            [5.0000]])
    """
    if steps < 0:
        raise ValueError(f"steps must not be negative; got {steps}")
    if steps == 0 or x.numel() == 0:
        return x.clone()
    pattern, values = walk.pattern, walk.forth.contiguous()
    flat = x.reshape(x.shape[0], -1)
    step = step_for(pattern, values, flat, times=steps)
    if step is None:
        for _ in range(steps):
            x = diffuse(x, walk, laziness)
        return x
    # Half the bytes to read for where neighbours are.
    col = pattern.col.int() if walk.num_nodes < 2**31 else pattern.col
    state, rooms = _aligned(flat), [_room_for(flat) for _ in range(min(steps, 2))]
    for k in range(steps):
        out = rooms[k % 2]
        state = step(pattern.rowptr, col, values, state, laziness, 1 - laziness, out)
    return state.view(x.shape)


def product(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor | None:
    """Sparse times dense, :math:`S x`; ``None`` where PyTorch's own product is the better choice.

    That is the case for little work, under ``use("reference")``, for types other than float32 and
    float64, and where the kernels are not available.

    Args:
        pattern: where the entries of the matrix are.
        values: their values, ``[entries]``.
        x: ``[columns, channels]``.
    """
    step = step_for(pattern, values, x)
    if step is None:
        return None
    return step(pattern.rowptr, pattern.col, values.contiguous(), _aligned(x), 0.0, 1.0, None)


def step_for(pattern: Pattern, values: Tensor, x: Tensor, times: int = 1) -> Step | None:
    """The kernel for such a product done so many times, if there is one that pays."""
    choice = chosen()
    work = values.shape[0] * (ENTRY_WORK + x.shape[1]) * times
    if choice == "reference" or (choice == "auto" and work < LEAST_WORK):
        return None
    if x.dtype not in (torch.float32, torch.float64) or values.dtype != x.dtype:
        return None
    if pattern.col.dtype not in (torch.int32, torch.int64):
        return None
    # What is traced or mapped over has no memory to read from.
    if not all(_is_plain(tensor) for tensor in (values, x, pattern.col)):
        return None
    if x.device.type == "cpu" and cpu.available():
        from legs.kernels import cpu_csr  # imports numba, an extra

        return cpu_csr.step
    if x.device.type == "cuda" and cuda.available():
        from legs.kernels import cuda_csr

        return cuda_csr.step
    return None


def _is_plain(x: Tensor) -> bool:
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(x)
    return type(x) in (Tensor, Parameter) and not wrapped


def _aligned(x: Tensor) -> Tensor:
    """Contiguous, and fit to be read in pieces of 16 bytes."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


def _room_for(x: Tensor) -> Tensor:
    if x.device.type != "cpu":
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    from legs.kernels.cpu_csr import room_for

    return room_for(x.shape[0], x.shape[1], x.dtype)


products["cpu"] = products["cuda"] = product
