r"""Nonlinearities between wavelets: each makes one or more real parts of a band.

- ``"abs"``: :math:`|u|`, the modulus of complex bands;
- ``"relu-pair"``: :math:`\mathrm{ReLU}(u)` and :math:`\mathrm{ReLU}(-u)`, whose squares add up to
  :math:`u^2`: energy and signs are kept. Of complex bands, those of the real and imaginary part;
- ``"none"``: :math:`u`; of complex bands, the real and the imaginary part;
- a function of a tensor, which returns a real one of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Nonlinearity = Literal["abs", "relu-pair", "none"] | Callable[[Tensor], Tensor]


def part_names(nonlinearity: Nonlinearity, is_complex: bool = False) -> tuple[str, ...]:
    """Names of the parts of a band; raises :class:`ValueError` for an unknown nonlinearity.

    >>> part_names("relu-pair"), part_names("none", is_complex=True)
    (('+', '-'), ('re', 'im'))
    """
    if callable(nonlinearity) or nonlinearity == "abs":
        return ("",)
    if nonlinearity not in ("relu-pair", "none"):
        raise ValueError(
            f'nonlinearity must be "abs", "relu-pair", "none" or a function; got {nonlinearity!r}'
        )
    signs = ("+", "-") if nonlinearity == "relu-pair" else ("",)
    return tuple(part + sign for part in (("re", "im") if is_complex else ("",)) for sign in signs)


def band_parts(
    nonlinearity: Nonlinearity, is_complex: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the parts of a wavelet and of a low-pass."""
    low = low_nonlinearity(nonlinearity, is_complex)
    return part_names(nonlinearity, is_complex), part_names(low, is_complex)


def low_nonlinearity(nonlinearity: Nonlinearity, is_complex: bool) -> Nonlinearity:
    """What is done to a low-pass: nothing, but for making complex ones real."""
    one = is_complex and len(part_names(nonlinearity, True)) == 1
    return "abs" if one else "none"


def split_bands(bands: Tensor, nonlinearity: Nonlinearity) -> Tensor:
    """The parts of all bands, ``[nodes, bands * parts, ...]`` from ``[nodes, bands, ...]``.

    >>> split_bands(torch.tensor([[2.0, -3.0]]), "relu-pair")
    tensor([[2., 0., 0., 3.]])
    """
    if nonlinearity == "abs":
        return bands.abs()
    if nonlinearity in ("relu-pair", "none"):
        parts = [bands.real, bands.imag] if bands.is_complex() else [bands]
        if nonlinearity == "relu-pair":
            parts = [signed.relu() for part in parts for signed in (part, -part)]
        return parts[0] if len(parts) == 1 else torch.stack(parts, dim=2).flatten(1, 2)
    out: Tensor = nonlinearity(bands)  # type: ignore[operator]
    if out.shape != bands.shape or out.is_complex():
        raise ValueError(
            f"nonlinearity must return a real tensor of the shape it is given, "
            f"{list(bands.shape)}; got {list(out.shape)}, {out.dtype}"
        )
    return out
