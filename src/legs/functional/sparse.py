r"""The one sparse primitive: :math:`y = Sx` for a CSR matrix :math:`S` and dense columns :math:`x`.

PyTorch's own CSR product is fast but neither maps over models (:func:`torch.func.vmap`) nor
compiles. Here it is wrapped once so that it does both: gathered and added for the compiler, else an
autograd function with a mapping rule that folds the models into columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import torch
from torch import Tensor

Product = Callable[["Pattern", Tensor, Tensor], Tensor | None]


class Pattern(NamedTuple):
    """Where the entries of a sparse matrix are, in row order and in column order.

    ``to_columns`` takes values in row order to column order, ``to_rows`` back. A ``product`` may
    return ``None`` where PyTorch's own is the better choice.
    """

    rowptr: Tensor  # [rows + 1]
    row: Tensor  # [entries]
    col: Tensor  # [entries]
    to_columns: Tensor  # [entries]
    rowptr_t: Tensor  # [columns + 1]
    row_t: Tensor  # [entries]
    col_t: Tensor  # [entries]
    to_rows: Tensor  # [entries]
    product: Product | None = None

    def transpose(self) -> Pattern:
        """The pattern of the transposed matrix, whose values are ``values[to_columns]``."""
        return Pattern(*self[4:8], *self[:4], self.product)


def row_pointers(sorted_rows: Tensor, size: int) -> Tensor:
    """CSR offsets, shape ``[size + 1]``, of sorted row indices.

    >>> row_pointers(torch.tensor([0, 0, 2]), 3)
    tensor([0, 2, 2, 3])
    """
    wanted = torch.arange(size + 1, device=sorted_rows.device, dtype=sorted_rows.dtype)
    return torch.searchsorted(sorted_rows, wanted)


def sort_indices(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Sorts indices below ``size``, stably: the sorted ones, and their order."""
    if index.device.type == "cuda":  # a radix sort, whose time grows with the bytes of a key
        narrow = torch.int16 if size < 2**15 else torch.int32 if size < 2**31 else index.dtype
        order = torch.sort(index.to(narrow), stable=True).indices
        return index.index_select(0, order), order
    values, order = torch.sort(index, stable=True)
    return values, order


def build_pattern(row: Tensor, col: Tensor, rows: int, columns: int) -> tuple[Pattern, Tensor]:
    """Sorts entries by row. Returns the pattern and the order in which to put the values.

    >>> pattern, order = build_pattern(torch.tensor([1, 0]), torch.tensor([0, 1]), 2, 2)
    >>> pattern.col, order
    (tensor([1, 0]), tensor([1, 0]))
    """
    row, order = sort_indices(row, rows)
    col = col.index_select(0, order)
    row_t, to_columns = sort_indices(col, columns)
    col_t = row.index_select(0, to_columns)
    places = torch.arange(row.shape[0], device=row.device)
    to_rows = places.scatter(0, to_columns, places)
    by_row = (row_pointers(row, rows), row, col, to_columns)
    return Pattern(*by_row, row_pointers(row_t, columns), row_t, col_t, to_rows), order


def spmm(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor:
    r"""Sparse times dense, :math:`y_i = \sum_e v_e x_{\mathrm{col}(e)}` over the entries of row i.

    Differentiable (twice) in ``values`` and ``x``, maps and compiles.

    Args:
        pattern: where the entries are.
        values: their values, ``[entries]``.
        x: ``[columns, ...]``; trailing axes are independent columns.

    Returns:
        ``[rows, ...]``.

    >>> pattern, _ = build_pattern(torch.tensor([0, 1]), torch.tensor([1, 0]), 2, 2)
    >>> spmm(pattern, torch.tensor([2.0, 3.0]), torch.tensor([[1.0], [10.0]]))
    tensor([[20.],
            [ 3.]])
    """
    flat = x.reshape(x.shape[0], x.shape[1:].numel())
    out: Tensor
    if torch.compiler.is_compiling():  # which fuses it, and cannot look into CSR products
        out = _gather(pattern, values.unsqueeze(-1), flat)
    else:
        out = _Spmm.apply(values, flat, *pattern)  # type: ignore[no-untyped-call]
    return out.view(pattern.rowptr.shape[0] - 1, *x.shape[1:])


class _Spmm(torch.autograd.Function):
    @staticmethod
    def forward(values: Tensor, x: Tensor, *pattern: Any) -> Tensor:
        return _product(Pattern(*pattern), values, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        values, x, *pattern, ctx.product = inputs
        # x is kept only where the values are learned: m steps would otherwise keep m copies.
        ctx.save_for_backward(values, x if values.requires_grad else None, *pattern)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (values, x, *tensors) = grads, ctx.saved_tensors
        pattern = Pattern(*tensors)._replace(product=ctx.product)
        grad_values = grad_x = None
        if ctx.needs_input_grad[0]:
            gathered = grad.index_select(0, pattern.row) * x.index_select(0, pattern.col)
            grad_values = gathered.sum(-1)
        if ctx.needs_input_grad[1]:
            grad_x = spmm(pattern.transpose(), values.index_select(0, pattern.to_columns), grad)
        return grad_values, grad_x, *[None] * len(pattern)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        values, x, pattern = *inputs[:2], Pattern(*inputs[2:])
        if any(dim is not None for dim in in_dims[2:]):
            raise RuntimeError("The graph must be the same for all models mapped over.")
        if in_dims[1] is None:
            x = x.unsqueeze(1).expand(-1, info.batch_size, -1)
        else:
            x = x.movedim(in_dims[1], 1)
        if in_dims[0] is None:
            return spmm(pattern, values, x), 1
        # A value per model: no shared matrix to multiply with.
        return _gather(pattern, values.movedim(in_dims[0], 1).unsqueeze(-1), x), 1


def _gather(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor:
    """Sums of messages ``values * x[col]``, entry by entry."""
    zeros = x.new_zeros(pattern.rowptr.shape[0] - 1, *x.shape[1:])
    return zeros.index_add(0, pattern.row, values * x.index_select(0, pattern.col))


def _product(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor:
    shape = (pattern.rowptr.numel() - 1, x.shape[0])
    if values.numel() == 0 or x.numel() == 0:
        return x.new_zeros(shape[0], x.shape[1])
    out = None if pattern.product is None else pattern.product(pattern, values, x)
    if out is not None:
        return out
    _hear_beta_warning_once()
    entries = (pattern.rowptr, pattern.col, values)
    return torch.sparse_csr_tensor(*entries, shape, check_invariants=False) @ x


@cache
def _hear_beta_warning_once() -> None:
    # PyTorch warns once per process that CSR is in beta; users can do nothing with that.
    with catch_warnings():
        simplefilter("ignore")
        index = torch.tensor([0, 1])
        torch.sparse_csr_tensor(index, index[:1], torch.ones(1), (1, 1), check_invariants=False)
