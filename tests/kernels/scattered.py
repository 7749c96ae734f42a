"""Scattering moments written out with :mod:`legs.functional`, for any filters."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from legs import functional as fn
from legs.functional.diffusion import BASE
from legs.functional.operators import walk_operator
from legs.functional.scattering import PathPolicy
from legs.kernels.csr import Batch, make_batch


class Case(NamedTuple):
    """Graphs with signals: what both the reference and the kernels start from."""

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None
    batch: Tensor
    num_graphs: int

    def to(self, dtype: torch.dtype) -> Case:
        weight = None if self.edge_weight is None else self.edge_weight.to(dtype)
        return self._replace(x=self.x.to(dtype), edge_weight=weight)

    def walk(self) -> fn.Walk:
        return fn.random_walk(self.edge_index, self.edge_weight, self.x.shape[0], self.x.dtype)

    def prepared(self, steps: int | None = None) -> Batch:
        """What the kernels read; with the walk powers of so many steps, if given."""
        powers = None if steps is None else fn.walk_powers(self.x, self.walk(), steps)
        return make_batch(*self, powers, validate=False)


def coefficients(case: Case, filters: Tensor, policy: PathPolicy) -> Tensor:
    """Signed scattering coefficients ``[nodes, paths, channels]`` of filters ``[C, J, m]``."""
    walk, (_, scales, steps) = case.walk(), filters.shape

    def wavelets(u: Tensor) -> Tensor:
        states = fn.diffusions(fn.high_pass(u, walk, BASE), walk, BASE, steps)
        return torch.einsum("cjs,snc->jnc", filters, states)

    first = wavelets(case.x)
    found = [case.x, *first]
    for path in fn.scattering_paths(scales, 2, policy):
        if len(path) == 2:
            found.append(wavelets(first[path[0]].abs())[path[1]])
    return torch.stack(found, dim=1)


def dense_coefficients(case: Case, operator: str, filters: Tensor) -> Tensor:
    """Signed coefficients ``[nodes, paths, channels]`` by dense matrices, of increasing paths."""
    nodes, scales = len(case.x), filters.shape[1]
    weight = torch.ones(case.edge_index.shape[1]) if case.edge_weight is None else case.edge_weight
    matrix = case.x.new_zeros(nodes, nodes)
    matrix.index_put_(tuple(case.edge_index.flip(0)), weight.to(matrix), accumulate=True)
    matrix += torch.diag((matrix.sum(1) == 0).to(matrix))
    degree = matrix.sum(1, keepdim=True)
    left, right = {"row": (1.0, 0.0), "symmetric": (0.5, 0.5), "walk": (0.0, 1.0)}[operator]
    walk = (torch.eye(nodes) + degree**-left * matrix * degree.T**-right) / 2

    def wavelets(u: Tensor) -> Tensor:
        states = [u - walk @ u]
        for _ in range(filters.shape[-1] - 1):
            states.append(walk @ states[-1])
        return torch.einsum("cjs,snc->jnc", filters, torch.stack(states))

    first = wavelets(case.x)
    second = [wavelets(first[a].abs())[a + 1 :] for a in range(scales)]
    return torch.cat([case.x.unsqueeze(0), first, *second]).movedim(0, 1)


def moments(case: Case, z: Tensor, operator: str = "walk") -> Tensor:
    """Moments ``[graphs, paths, channels, 4]`` of signed coefficients."""
    walk = case.walk()
    own = walk if operator == "walk" else walk_operator(walk, operator)
    energy = fn.signal_energy(case.x, own, case.batch, case.num_graphs).unsqueeze(1)
    sizes = torch.cat([z[:, :1], z[:, 1:].abs()], dim=1)
    return fn.moments(sizes, case.batch, case.num_graphs, energy=energy)


def reference(case: Case, filters: Tensor, policy: PathPolicy = "increasing") -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]``, differentiable in the filters."""
    return torch.stack([moments(case, coefficients(case, one, policy)) for one in filters])


def clear_of_kinks(
    case: Case,
    filters: Tensor,
    policy: PathPolicy = "increasing",
    exact: bool = True,
) -> Tensor:
    """Which moments have a gradient that rounding does not decide; shape of the moments.

    Where a coefficient is zero up to rounding, so is the sign that its gradient takes. Exact zeros
    are no trouble, their gradient is zero; unless they are not ``exact`` where sums run in another
    order.
    """
    _, _, scales, _ = filters.shape
    paths = fn.scattering_paths(scales, 2, policy)
    energy = fn.signal_energy(case.x, case.walk(), case.batch, case.num_graphs).sqrt()
    clear = []
    for one in filters:
        z = coefficients(case, one, policy).detach()
        noisy = z.abs() <= 1e-9 * energy[case.batch].unsqueeze(1)
        if exact:
            noisy &= z != 0
        noisy[:, 0] = False
        bad = torch.zeros(case.num_graphs, *z.shape[1:], dtype=torch.int64)
        bad.index_add_(0, case.batch, noisy.long())
        for place, path in enumerate(paths):
            if len(path) == 2:
                bad[:, place] += bad[:, 1 + path[0]]
        clear.append(bad == 0)
    return torch.stack(clear).unsqueeze(-1).expand(*[-1] * 4, 4)


def worst(found: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to numbers above one."""
    assert found.shape == wanted.shape
    assert found.isfinite().all()
    if found.numel() == 0:
        return 0.0
    return float(((found - wanted).abs() / wanted.abs().clamp_min(1)).max())
