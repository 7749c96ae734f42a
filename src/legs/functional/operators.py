r"""Diffusion operators: what a filter bank needs of a graph.

A bank is made of polynomials :math:`f_j(P)` of one operator :math:`P`. It needs :math:`P x`, an
inner product :math:`\langle x, y \rangle = \sum_i m_i \bar x_i y_i`, and bounds of the spectrum.
Where :math:`P` is self-adjoint in that inner product, :math:`f(P)` acts on each eigenvalue by
itself, and the frame bounds of :mod:`legs.functional.frame` hold in the norm of the inner product.
With
:math:`P = \alpha I + (1 - \alpha) A`,

- ``"walk"``: :math:`A = W D^{-1}`, the paper's, :math:`m = 1/d`, spectrum :math:`[2\alpha - 1, 1]`;
- ``"row"``: :math:`A = D^{-1} W`, the mean over the neighbors, :math:`m = d`, the same spectrum;
- ``"symmetric"``: :math:`A = D^{-1/2} W D^{-1/2}`, :math:`m = 1`, the same spectrum;
- ``"directed"``: the same of the symmetrized weights :math:`S = (W + W^\top)/2`, with the phase
  :math:`A_{ij} = e^{i \theta_{ij}} S_{ij} / \sqrt{d_i d_j}`,
  :math:`\theta_{ij} = \frac\pi2 \frac{W_{ij} - W_{ji}}{W_{ij} + W_{ji}}`: Hermitian (the magnetic
  Laplacian is :math:`I - A`), :math:`m = 1`, the same spectrum; signals become complex. On an
  undirected graph it is ``"symmetric"``;

and ``"heat"``, :math:`P = e^{-L}`, :math:`L = I - D^{-1/2} W D^{-1/2}`, :math:`m = 1`, spectrum
:math:`[e^{-2}, 1]`, by its Chebyshev series with modified Bessel functions :math:`I_k`,

.. math::
    e^{-L} = \frac1e \Big(I_0(1) + 2 \sum_{k \ge 1} I_k(1)\, T_k(I - L)\Big), \qquad
    \text{error} \le \frac2e \sum_{k > K} I_k(1) .

:math:`K` is the least that brings this bound below the rounding error of one: 7 in float32, 14 in
float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

import torch
from scipy.special import ive
from torch import Tensor
from torch_geometric.utils import coalesce

from legs.functional.diffusion import Walk, random_walk
from legs.functional.sparse import Pattern, build_pattern, spmm

OPERATORS = ("walk", "row", "symmetric", "heat", "directed")


@runtime_checkable
class DiffusionOperator(Protocol):
    """An operator on signals ``[nodes, ..., channels]`` of one graph, or of a batch."""

    @property
    def metric(self) -> Tensor:
        """Weights of the inner product, positive, ``[nodes]``."""

    @property
    def spectrum(self) -> tuple[float, float]:
        """Bounds of the eigenvalues. Within [0, 1], an ordered bank does not expand."""

    def apply(self, x: Tensor) -> Tensor:
        """:math:`P x`."""

    def adjoint(self, x: Tensor) -> Tensor:
        r""":math:`P^* x`, with :math:`\langle P^* x, y \rangle = \langle x, P y \rangle`."""


# A name, an operator of one graph, or a function of edge_index, edge_weight, num_nodes and dtype.
OperatorLike = str | DiffusionOperator | Callable[..., DiffusionOperator]


@dataclass(frozen=True)
class LazyOperator:
    r""":math:`P = \alpha I + (1 - \alpha) A` for a sparse :math:`A`, self-adjoint in its metric."""

    pattern: Pattern
    values: Tensor  # [entries] of A
    metric: Tensor  # [nodes]
    laziness: Tensor | float = 0.5

    @property
    def spectrum(self) -> tuple[float, float]:
        return 2 * float(torch.as_tensor(self.laziness).min()) - 1, 1.0

    def apply(self, x: Tensor) -> Tensor:
        return self.laziness * x + (1 - self.laziness) * self.neighbors(x)

    adjoint = apply

    def neighbors(self, x: Tensor) -> Tensor:
        """:math:`A x`."""
        if not (self.values.is_complex() or x.is_complex()):
            return spmm(self.pattern, self.values, x)
        values = self.values.to(torch.promote_types(self.values.dtype, x.dtype))
        parts = torch.view_as_real(x.to(values.dtype))
        real, imag = (
            torch.view_as_complex(spmm(self.pattern, part.contiguous(), parts))
            for part in torch.view_as_real(values).unbind(-1)
        )
        return real + 1j * imag

    def spread(self, x: Tensor) -> Tensor:
        """:math:`|A| x`, entry by entry."""
        return spmm(self.pattern, self.values.abs(), x)


@dataclass(frozen=True)
class HeatOperator:
    """:math:`e^{-L}` by Chebyshev polynomials of a symmetric operator without laziness."""

    symmetric: LazyOperator
    spectrum = (float(torch.tensor(-2.0).double().exp()), 1.0)

    @property
    def metric(self) -> Tensor:
        return self.symmetric.metric

    def apply(self, x: Tensor) -> Tensor:
        first, *rest = heat_coefficients(torch.finfo(x.dtype).eps)
        before, state = x, self.symmetric.neighbors(x)
        out = first * x + rest[0] * state
        for coefficient in rest[1:]:
            before, state = state, 2 * self.symmetric.neighbors(state) - before
            out = out + coefficient * state
        return out

    adjoint = apply


@cache
def heat_coefficients(error: float) -> tuple[float, ...]:
    r"""Chebyshev coefficients of :math:`e^{-(1 - y)}` on [-1, 1], as many as the error asks for.

    >>> len(heat_coefficients(1e-7)) - 1
    7
    """
    terms = [float(ive(k, 1.0)) * (1 if k == 0 else 2) for k in range(40)]
    return tuple(terms[: next(k for k in range(2, 40) if sum(terms[k:]) <= error)])


def graph_operator(
    operator: OperatorLike,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    dtype: torch.dtype | None = None,
    laziness: Tensor | float = 0.5,
) -> DiffusionOperator:
    """The diffusion operator of a graph.

    Args:
        operator: ``"walk"``, ``"row"``, ``"symmetric"``, ``"heat"``, ``"directed"``; a
            :class:`DiffusionOperator`; or what makes one of the next four arguments.
        edge_index: ``[2, edges]``; both directions of every edge, except for ``"directed"``.
        edge_weight: ``[edges]``, or ``None`` for ones. Differentiable.
        num_nodes: number of nodes.
        dtype: of the operator (default: the weights', or PyTorch's default).
        laziness: of the walks and ``"directed"``, one value or ``[channels]``.

    >>> edge_index = torch.tensor([[0, 1], [1, 0]])
    >>> graph_operator("row", edge_index, None, 2).apply(torch.tensor([[1.0], [0.0]]))
    tensor([[0.5000],
            [0.5000]])
    """
    graph = (edge_index, edge_weight, num_nodes, dtype)
    if not isinstance(operator, str):
        is_function = isinstance(operator, type) or not hasattr(operator, "apply")
        own: Any = operator(*graph) if is_function else operator  # type: ignore[operator]
        if len(own.metric) != num_nodes:
            raise ValueError(
                f"the operator's metric has {len(own.metric)} entries for {num_nodes} nodes; for "
                "more than one graph, pass a function (edge_index, edge_weight, num_nodes, dtype)"
            )
        return own  # type: ignore[no-any-return]
    if operator == "directed":
        return _magnetic(*graph, laziness)
    return walk_operator(random_walk(*graph), operator, laziness)


def walk_operator(walk: Walk, operator: str, laziness: Tensor | float = 0.5) -> DiffusionOperator:
    """One of the operators of undirected graphs: all but ``"directed"``."""
    if operator == "walk":
        return LazyOperator(walk.pattern, walk.forth, 1 / walk.degree, laziness)
    if operator == "row":
        return LazyOperator(walk.pattern, walk.back, walk.degree, laziness)
    values, ones = (walk.forth * walk.back).sqrt(), torch.ones_like(walk.degree)
    if operator == "symmetric":
        return LazyOperator(walk.pattern, values, ones, laziness)
    return HeatOperator(LazyOperator(walk.pattern, values, ones, 0.0))


def _magnetic(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    dtype: torch.dtype | None,
    laziness: Tensor | float,
) -> LazyOperator:
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.shape[1], dtype=dtype, device=edge_index.device)
    weight = edge_weight if dtype is None else edge_weight.to(dtype)
    both = torch.cat([edge_index.flip(0), edge_index], dim=1)  # W_ij, then W_ji, of rows i
    sums = torch.stack([torch.cat([weight, weight]), torch.cat([weight, -weight])], dim=1) / 2
    (row, col), sums = coalesce(both, sums, num_nodes)
    size, skew = sums.unbind(1)
    degree = size.new_zeros(num_nodes).index_add(0, row, size)
    alone, nodes = (degree == 0).to(degree.dtype), torch.arange(num_nodes, device=row.device)
    scale = (degree + alone).rsqrt()
    size_or_one = torch.where(size > 0, size, 1)
    angle = torch.pi / 2 * skew / size_or_one
    entries = torch.polar(size_or_one, angle) * (size > 0) * scale[row] * scale[col]
    places = torch.cat([row, nodes]), torch.cat([col, nodes])
    pattern, order = build_pattern(*places, num_nodes, num_nodes)
    values = torch.cat([entries, alone.to(entries.dtype)])[order]
    return LazyOperator(pattern, values, torch.ones_like(degree), laziness)


def operator_spectrum(operator: OperatorLike, laziness: float = 0.5) -> tuple[float, float]:
    """Bounds of the spectrum, whatever the graph.

    >>> operator_spectrum("walk", 0.75)
    (0.5, 1.0)
    """
    if operator == "heat":
        return HeatOperator.spectrum
    if isinstance(operator, str):
        return 2 * laziness - 1, 1.0
    spectrum = getattr(operator, "spectrum", None)
    if not isinstance(spectrum, tuple):
        raise ValueError(
            "frame bounds need the operator's spectrum: give the function an attribute "
            "spectrum = (lower, upper) that holds for every graph"
        )
    return spectrum


def check_name(operator: OperatorLike) -> None:
    """Raises :class:`ValueError` for an unknown name."""
    if isinstance(operator, str) and operator not in OPERATORS:
        raise ValueError(f"operator must be one of {', '.join(OPERATORS)}; got {operator!r}")


def is_complex(operator: OperatorLike) -> bool:
    """Whether signals become complex: of ``"directed"``, and where ``operator.is_complex``."""
    return operator == "directed" or bool(getattr(operator, "is_complex", False))


def check_operator(operator: DiffusionOperator, x: Tensor, tolerance: float = 1e-4) -> None:
    r"""Whether an operator of one's own keeps its promises on a graph, on signals like ``x``.

    Random signals show whether ``adjoint`` is one and equals ``apply``, and thirty steps of each
    end of the spectrum whether the eigenvalues leave it. The frame bounds need all of these.

    >>> operator = graph_operator("row", torch.tensor([[0, 1], [1, 0]]), None, 2)
    >>> check_operator(operator, torch.rand(2, 3))
    """

    def inner(a: Tensor, b: Tensor) -> Tensor:
        return (operator.metric.unsqueeze(-1) * a.conj() * b).sum()

    one, other = torch.rand_like(x), torch.randn_like(x)
    expected, size = inner(one, operator.apply(other)), inner(one, one) + inner(other, other)
    for name in ("adjoint", "apply"):
        difference = inner(getattr(operator, name)(one), other) - expected
        if float(difference.abs()) > tolerance * float(size.abs()):
            what = "is not its adjoint" if name == "adjoint" else "is not self-adjoint"
            raise ValueError(f"the operator {what} in the inner product of its metric")
    lower, upper = operator.spectrum
    for end in (lower, upper):  # the eigenvalue farthest from the other end
        start = lower + upper - end
        state = other
        for _ in range(30):
            state = operator.apply(state) - start * state
            state = state / inner(state, state).abs().sqrt().clamp_min(1e-30)
        value = float(inner(state, operator.apply(state)).real)
        if not lower - tolerance <= value <= upper + tolerance:
            raise ValueError(f"the operator's spectrum {operator.spectrum} leaves out {value:.6g}")
