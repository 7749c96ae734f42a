"""Which scattering paths matter: how much worse answers get when a path's features are mixed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from legs.experiments.ledger import Row
from legs.models import Network
from legs.nn import Scattering
from legs.training.cv_measures import squared_error
from legs.training.inputs import Inputs
from legs.training.stack import Member
from legs.training.trust import unchecked

Floats = npt.NDArray[np.float64]
REPEATS = 5
_SEED = 0
_AT_ONCE = 512
WORDS = (
    "Permutation importance: on the test graphs, the features of one scattering path (all channels "
    f"and moments together) change places between graphs, {REPEATS} times at random; the number is "
    "how much the mean squared error of whitened targets rises, mean ± deviation over test sets. "
    "Paths are alike: what one no longer tells, others may, so the numbers do not add up. ψ₀ is "
    "the finest wavelet; ψ₁ψ₃ is ψ₃ |ψ₁ x|; x are the node features themselves."
)


def path_importance(member: Member, inputs: Inputs, y: Tensor) -> Tensor | None:
    """How much the error on a member's test graphs rises without what each path tells.

    Args:
        member: trained.
        inputs: its data.
        y: targets of all graphs, unscaled.

    Returns:
        The rise of the mean squared error of whitened targets, ``[paths, targets]``; ``None`` for
        networks whose features are no scattering coefficients.
    """
    network = member.network
    found = scattering_of(network)
    if found is None:
        return None
    index = torch.as_tensor(member.split.test).to(y.device)
    features = graph_features(network, inputs, index)
    target = member.task.targets(y[index])
    with torch.no_grad():
        return rises(network, features, target, found.num_paths)


def rises(
    network: Network, features: Tensor, target: Tensor, paths: int, repeats: int = REPEATS
) -> Tensor:
    """The rise of the error by path, ``[paths, targets]``.

    Args:
        network: in evaluation mode.
        features: what its head reads, ``[graphs, paths × columns]``, path by path.
        target: whitened, ``[graphs, targets]``.
        paths: number of them.
        repeats: permutations (default 5).
    """
    generator = torch.Generator().manual_seed(_SEED)
    usual = squared_error(network.predict_from(features), target)
    total = usual.new_zeros(paths, len(usual))
    apart = features.unflatten(1, (paths, -1))
    for _ in range(repeats):
        order = torch.randperm(len(features), generator=generator).to(features.device)
        for path in range(paths):
            mixed = apart.clone()
            mixed[:, path] = apart[order, path]
            total[path] += squared_error(network.predict_from(mixed.flatten(1)), target) - usual
    return total / repeats


def scattering_of(network: Network) -> Scattering | None:
    """The scattering whose output the network's head reads, if there is one with columns by path.

    >>> from legs.models import create
    >>> scattering_of(create("mp-legs-fcn", 2, 1)).num_paths
    16
    >>> scattering_of(create("gin", 2, 1)) is None
    True
    """
    module = getattr(network, "scattering", None)
    if not isinstance(module, Scattering) or any(c.channel < 0 for c in module.paths()):
        return None
    return module


@torch.no_grad()
def graph_features(network: Network, inputs: Inputs, index: Tensor) -> Tensor:
    """What a network's head reads for the graphs ``index``, in evaluation mode."""
    network.eval()
    if inputs.features is not None:
        return inputs.features[index]
    parts = []
    with unchecked(network):
        for some in index.split(_AT_ONCE):
            graphs, known = inputs.batch(some)
            parts.append(network.embed(*graphs[:5], **known))
    return torch.cat(parts)


def path_names(module: Scattering) -> list[str]:
    """Names of the paths, in order.

    >>> path_names(Scattering(2, num_scales=2))
    ['x', 'ψ₀', 'ψ₁', 'ψ₀ψ₁']
    """
    small = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    last = module.selection.num_scales
    found = dict.fromkeys(column.path for column in module.paths())
    return [
        "".join("φ" if j == last else f"ψ{j}".translate(small) for j in path) or "x"
        for path in found
    ]


def kept(method: str, channels: int, measured: Sequence[Tensor]) -> dict[str, Any]:
    """What a row keeps of the importance of paths, as JSON values.

    Args:
        method: a network's name.
        channels: number of node features.
        measured: of each test set, ``[models, paths, targets]``.
    """
    from legs.models import create

    module = scattering_of(create(method, channels, 1))
    assert module is not None
    found = np.stack([one.double().mean(0).numpy() for one in measured])
    return {
        "paths": path_names(module),
        "rise": found.mean(2).round(5).tolist(),
        "by_target": found.mean(0).round(5).tolist(),
    }


def table(rows: Mapping[str, Row]) -> pd.DataFrame:
    """A row a path, a column a cell.

    Args:
        rows: finished cells with importances, by their title.
    """
    columns: dict[str, list[str]] = {}
    for title, row in rows.items():
        known = row["importance"]
        columns.setdefault("path", known["paths"])
        rise = np.asarray(known["rise"])
        columns[title] = [
            f"{mean:.3f} ± {std:.3f}" for mean, std in zip(rise.mean(0), rise.std(0), strict=True)
        ]
    return pd.DataFrame(columns)


def numbers(rows: Sequence[Row]) -> pd.DataFrame:
    """The same for other programs: a row a cell, path and target.

    Args:
        rows: finished cells with importances.
    """
    found = []
    for row in rows:
        known = row["importance"]
        for path, values in zip(known["paths"], known["by_target"], strict=True):
            for target, rise in zip(row["targets"], values, strict=True):
                names = (row["data"], row["variant"], row["method"], path, target)
                found.append((*names, rise))
    return pd.DataFrame(found, columns=["data", "variant", "method", "path", "target", "rise"])
