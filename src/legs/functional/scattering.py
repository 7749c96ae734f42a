r"""The scattering cascade: wavelets and absolute values in turn.

.. math::
    U_p x = \Psi_{j_k} \big|\Psi_{j_{k-1}} \cdots |\Psi_{j_1} x| \cdots \big|,
    \qquad p = (j_1, \dots, j_k); \qquad U_{()} x = x .
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any, Literal

import torch
from torch import Tensor

from legs.functional.diffusion import Walk
from legs.functional.wavelets import wavelet_transform

PathPolicy = Literal["increasing", "all"]
Path = tuple[int, ...]


def scattering_paths(
    num_scales: int, order: int = 2, policy: PathPolicy = "increasing", lowpass: bool = False
) -> list[Path]:
    r"""The paths of a cascade in the order of its output: by order, then lexicographically.

    With ``lowpass`` the low-passed paths follow in the same order; they end in ``num_scales``, the
    index of :math:`\Phi_J`.

    >>> scattering_paths(3, order=2)
    [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    >>> scattering_paths(2, order=1, lowpass=True)
    [(), (0,), (1,), (2,), (0, 2), (1, 2)]
    """
    paths: list[Path] = []
    for k in range(order + 1):
        if policy == "increasing":
            paths += combinations(range(num_scales), k)
        else:
            paths += product(range(num_scales), repeat=k)
    if lowpass:
        paths += [(*path, num_scales) for path in paths]
    return paths


def scattering(
    x: Tensor,
    walk: Walk,
    laziness: Tensor | float,
    cumulative: Tensor,
    *,
    order: int = 2,
    policy: PathPolicy = "increasing",
    lowpass: bool = False,
    powers: Tensor | None = None,
    transform: Callable[..., Tensor] | None = None,
) -> Tensor:
    r"""Scattering coefficients at every node, signed.

    Args:
        x: signals, ``[nodes, channels]``.
        walk: from :func:`~legs.functional.random_walk`.
        laziness: :math:`\alpha`, one value or ``[channels]``.
        cumulative: scales in cumulative form, ``[J, m]``.
        order: length of the longest path (default 2).
        policy: ``"increasing"`` (default) for paths :math:`j_1 < j_2 < \dots`, or ``"all"``.
        lowpass: whether to append :math:`\Phi_J x` and :math:`\Phi_J |U_p x|` (default ``False``).
        powers: :func:`~legs.functional.walk_powers` of ``x``, where they were computed before.
        transform: applies the filter bank, to ``[nodes, filters, ..., channels]`` (default:
            :func:`~legs.functional.wavelet_transform`).

    Returns:
        ``[nodes, paths, channels]``, paths as in :func:`scattering_paths`.

    >>> from legs.functional import cumulative_of_scales, random_walk
    >>> walk = random_walk(torch.tensor([[0, 1], [1, 0]]), None, num_nodes=2)
    >>> scattering(torch.eye(2), walk, 0.5, cumulative_of_scales([1, 2], 2)).shape
    torch.Size([2, 4, 2])
    """
    num_scales = cumulative.shape[-2]
    outputs = [x.unsqueeze(1)]
    lows: list[Tensor] = []
    paths: list[Path] = [()]
    signal = outputs[0]
    for k in range(order + 1):
        # Of this order's paths, those with children; increasing paths that end in the last
        # wavelet have none, so they are diffused again only for the low-pass.
        parents = [i for i, p in enumerate(paths) if k < order and _children(p, num_scales, policy)]
        diffused = list(range(len(paths))) if lowpass else parents
        if not diffused:
            break
        bank = (walk, laziness, cumulative)
        options: Any = {"wavelets": bool(parents), "lowpass": lowpass}
        if transform is not None:
            out = transform(_take(signal, diffused), *bank, **options)
        else:
            options["powers"] = powers if k == 0 else None
            out = wavelet_transform(_take(signal, diffused), *bank, **options).movedim(0, 1)
        if lowpass:
            lows.append(out[:, -1])
            out = out[:, :-1]
        if not parents:
            break
        # Slices, not lists of indices: those would be copied to a GPU at every step.
        children = {i: _children(paths[i], num_scales, policy) for i in parents}
        columns = out.unbind(2)
        parts = [columns[diffused.index(i)][:, children[i].start :] for i in parents]
        paths = [(*paths[i], j) for i in parents for j in children[i]]
        outputs.append(torch.cat(parts, dim=1) if len(parts) > 1 else parts[0])
        signal = outputs[-1].abs()
    return torch.cat(outputs + lows, dim=1)


def _children(path: Path, num_scales: int, policy: PathPolicy) -> range:
    start = path[-1] + 1 if path and policy == "increasing" else 0
    return range(start, num_scales)


def _take(x: Tensor, places: list[int]) -> Tensor:
    """``x[:, places]`` for increasing places, as slices of runs."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([place, place + 1])
    parts = [x[:, start:end] for start, end in runs]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
