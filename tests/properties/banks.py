"""Modules that show their filter bank: Psi_0 x, ..., Phi_J x as node features."""

from __future__ import annotations

import torch
from torch import Tensor

from legs import Scattering
from tests.strategies import Batch, Graph


def bank_of(
    module: Scattering, graph: Graph | Batch, x: Tensor, weight: Tensor | None = None
) -> list[Tensor]:
    """Psi_0 x, ..., Psi_(J-1) x, Phi_J x out of the node features of an order 1 module."""
    weight = graph.edge_weight if weight is None else weight
    features = module(x, graph.edge_index, weight)
    by_path: dict[tuple[int, ...], list[int]] = {}
    for column, entry in enumerate(module.columns()):
        by_path.setdefault(tuple(entry.path), []).append(column)
    count = max(len(path) and path[-1] for path in by_path)
    return [features[:, by_path[(j,)]] for j in range(count + 1)]


def linear_module(channels: int = 1, **options: object) -> Scattering:
    """Psi and Phi of one bank as node features."""
    return Scattering(channels, order=1, lowpass=True, aggr=None, **options).double()


def with_theta(theta: Tensor, channels: int = 1, **options: object) -> Scattering:
    """The same for a learned bank with these logits."""
    num_scales, steps = theta.shape
    module = linear_module(channels, num_scales=num_scales, steps=steps, **options)
    with torch.no_grad():
        module.selection.theta.copy_(theta)
    return module
