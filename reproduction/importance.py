"""Measures of trained networks: training errors, and which scattering paths matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from legs.models import Network, create
from legs.nn import Scattering
from legs.training.inputs import Inputs, predict, unchecked
from legs.training.stacked.trainer import Member

REPEATS, SEED, BATCH = 5, 0, 512


def squared_error(out: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of each column of ``[graphs, targets]``; NaN targets are left out."""
    present = ~target.isnan()
    error = torch.where(present, out.double() - target.double().nan_to_num(), 0.0)
    return error.square().sum(0) / present.sum(0)


def train_mse(member: Member, inputs: Inputs, y: Tensor) -> Tensor:
    """Mean squared error of standardized targets on the member's training graphs, ``[targets]``."""
    index = torch.as_tensor(member.split.train).to(y.device)
    out = predict(inputs, member.network, index)
    return squared_error(out, member.task.targets(y[index]))


def path_importance(member: Member, inputs: Inputs, y: Tensor) -> Tensor | None:
    """How much the error of a trained member on its test graphs rises when each path is permuted.

    The error is that of standardized targets, ``[paths, targets]``; ``None`` for networks without
    scattering coefficients.
    """
    scattering = scattering_of(member.network)
    if scattering is None:
        return None
    index = torch.as_tensor(member.split.test).to(y.device)
    features = graph_features(member.network, inputs, index)
    with torch.no_grad():
        target = member.task.targets(y[index])
        return rises(member.network, features, target, scattering.num_paths)


def rises(network: Network, features: Tensor, target: Tensor, paths: int) -> Tensor:
    """The rise of the error, ``[paths, targets]``, from features ``[graphs, paths × columns]``."""
    generator = torch.Generator().manual_seed(SEED)
    usual = squared_error(network.predict_from(features), target)
    total = usual.new_zeros(paths, len(usual))
    by_path = features.unflatten(1, (paths, -1))
    for _ in range(REPEATS):
        order = torch.randperm(len(features), generator=generator).to(features.device)
        for path in range(paths):
            mixed = by_path.clone()
            mixed[:, path] = by_path[order, path]
            total[path] += squared_error(network.predict_from(mixed.flatten(1)), target) - usual
    return total / REPEATS


def scattering_of(network: Network) -> Scattering | None:
    """The scattering whose output the network's head reads, if its columns belong to paths."""
    module = getattr(network, "scattering", None)
    if not isinstance(module, Scattering) or any(c.channel < 0 for c in module.columns()):
        return None
    return module


@torch.no_grad()
def graph_features(network: Network, inputs: Inputs, index: Tensor) -> Tensor:
    """What a network's head reads for the graphs ``index``, in evaluation mode."""
    network.eval()
    if inputs.features is not None:
        return inputs.features[index]
    with unchecked(network):
        batches = [inputs.batch(some) for some in index.split(BATCH)]
        return torch.cat([network.embed(*graphs[:5], **inputs) for graphs, inputs in batches])


def path_names(module: Scattering) -> list[str]:
    """Names of the paths, in order."""
    small = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    last = module.selection.num_scales
    return [
        "".join("φ" if j == last else f"ψ{j}".translate(small) for j in path) or "x"
        for path in dict.fromkeys(column.path for column in module.columns())
    ]


def importance_facts(method: str, channels: int, measured: Sequence[Tensor]) -> dict[str, Any]:
    """What a cell keeps: ``rise`` by test set and path, ``by_target`` by path and target."""
    module = scattering_of(create(method, channels, 1))
    assert module is not None
    rise = np.stack([one.double().mean(0).numpy() for one in measured])
    return {
        "paths": path_names(module),
        "rise": rise.mean(2).round(5).tolist(),
        "by_target": rise.mean(0).round(5).tolist(),
    }
