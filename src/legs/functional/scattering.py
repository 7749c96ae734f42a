r"""The scattering cascade: wavelets and absolute values in turn.

.. math::
    U_p x = \Psi_{j_k} \big|\Psi_{j_{k-1}} \cdots |\Psi_{j_1} x| \cdots \big|,
    \qquad p = (j_1, \dots, j_k); \qquad U_{()} x = x .
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from math import comb
from typing import Any, Literal

import torch
from torch import Tensor

from legs.functional.diffusion import Walk
from legs.functional.nonlinearity import (
    Nonlinearity,
    low_nonlinearity,
    part_names,
    split_bands,
)
from legs.functional.operators import DiffusionOperator
from legs.functional.wavelets import wavelet_transform

PathPolicy = Literal["increasing", "all"]
Path = tuple[int, ...]
MOST_PATHS = 1_000_000


def scattering_paths(
    num_scales: int,
    order: int = 2,
    policy: PathPolicy = "increasing",
    lowpass: bool = False,
    parts: int = 1,
    low_parts: int = 1,
) -> list[Path]:
    r"""The paths of a cascade in the order of its output: by order, then lexicographically.

    With ``lowpass`` the low-passed paths follow in the same order; they end in ``num_scales``, the
    index of :math:`\Phi_J`.

    With a nonlinearity that makes ``parts`` parts of a band, part :math:`s` of band :math:`j` is
    :math:`j \cdot \mathrm{parts} + s`; low-passes with ``low_parts`` parts come after all bands.

    >>> scattering_paths(3, order=2)
    [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    >>> scattering_paths(2, order=1, lowpass=True)
    [(), (0,), (1,), (2,), (0, 2), (1, 2)]
    """
    paths: list[Path] = []
    scales, increasing = range(num_scales), policy == "increasing"
    for k in range(min(order, num_scales) + 1 if increasing else order + 1):
        count = (comb(num_scales, k) if increasing else num_scales**k) * parts**k
        if len(paths) + count > MOST_PATHS:  # their number is exponential in the order
            raise ValueError(
                f"scattering of order {order} with {num_scales} scales has more than "
                f"{MOST_PATHS:,} paths"
            )
        paths += sorted(
            tuple(j * parts + s for j, s in zip(path, own, strict=True))
            for path in (combinations(scales, k) if increasing else product(scales, repeat=k))
            for own in product(range(parts), repeat=k)
        )
    if lowpass:
        low = range(num_scales * parts, num_scales * parts + low_parts)
        paths += [(*path, end) for path in paths for end in low]
    return paths


def scattering(
    x: Tensor,
    walk: Walk | DiffusionOperator,
    laziness: Tensor | float | None,
    cumulative: Tensor,
    *,
    order: int = 2,
    policy: PathPolicy = "increasing",
    lowpass: bool = False,
    nonlinearity: Nonlinearity = "abs",
    transform: Callable[..., Tensor] | None = None,
) -> Tensor:
    r"""Scattering coefficients at every node.

    With ``"abs"`` and real filters they are signed, :math:`U_p x` before its absolute value; every
    other nonlinearity applies to the last wavelet of a path, too. Low-passes are left as they are,
    and made real where the operator is complex.

    Args:
        x: signals, ``[nodes, channels]``.
        walk: from :func:`~legs.functional.random_walk`, or a diffusion operator
            (:func:`~legs.functional.graph_operator`).
        laziness: :math:`\alpha` of a walk, one value or ``[channels]``; operators have their own.
        cumulative: scales in cumulative form, ``[J, m]``.
        order: length of the longest path (default 2).
        policy: ``"increasing"`` (default) for paths :math:`j_1 < j_2 < \dots`, or ``"all"``.
        lowpass: whether to append :math:`\Phi_J x` and :math:`\Phi_J |U_p x|` (default ``False``).
        nonlinearity: after every wavelet, see :mod:`legs.functional.nonlinearity`.
        transform: applies the filter bank, to ``[nodes, filters, ..., channels]`` (default:
            :func:`~legs.functional.wavelet_transform`).

    Returns:
        ``[nodes, paths, channels]``, paths as in :func:`scattering_paths`.

    >>> from legs.functional import cumulative_of_scales, random_walk
    >>> walk = random_walk(torch.tensor([[0, 1], [1, 0]]), None, num_nodes=2)
    >>> scattering(torch.eye(2), walk, 0.5, cumulative_of_scales([1, 2], 2)).shape
    torch.Size([2, 4, 2])
    """
    num_scales, parts = cumulative.shape[-2], 1

    def children(path: Path) -> range:
        start = path[-1] // parts + 1 if path and policy == "increasing" else 0
        return range(start, num_scales)

    outputs = [x.unsqueeze(1)]
    lows: list[Tensor] = []
    paths: list[Path] = [()]
    signal = outputs[0]
    for k in range(order + 1):
        # Of this order's paths, those with children; increasing paths that end in the last
        # wavelet have none, so they are diffused again only for the low-pass.
        parents = [i for i, path in enumerate(paths) if k < order and children(path)]
        diffused = list(range(len(paths))) if lowpass else parents
        if not diffused:
            break
        if len(diffused) < len(paths):
            each = signal.unbind(1)
            signal = torch.stack([each[i] for i in diffused], dim=1)
        bank: Any = (signal, walk, laziness, cumulative)
        options: Any = {"wavelets": bool(parents), "lowpass": lowpass}
        if transform is not None:
            out = transform(*bank, **options)
        else:
            out = wavelet_transform(*bank, **options).movedim(0, 1)
        if lowpass:
            low = low_nonlinearity(nonlinearity, out.is_complex())
            lows.append(split_bands(out[:, -1], low))
            out = out[:, :-1]
        if not parents:
            break
        # Slices, not lists of indices: those would be copied to a GPU at every step.
        columns = out.unbind(2)
        bands = [columns[diffused.index(i)][:, children(paths[i]).start :] for i in parents]
        scales = [(paths[i], j) for i in parents for j in children(paths[i])]
        signed = torch.cat(bands, dim=1) if len(bands) > 1 else bands[0]
        signal = split_bands(signed, nonlinearity)
        parts = len(part_names(nonlinearity, signed.is_complex()))
        paths = [(*path, j * parts + s) for path, j in scales for s in range(parts)]
        keeps_sign = nonlinearity == "abs" and not signed.is_complex()
        outputs.append(signed if keeps_sign else signal)
    return torch.cat(outputs + lows, dim=1)
