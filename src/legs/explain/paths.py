"""Which scattering path every feature of a network belongs to."""

from __future__ import annotations

from typing import NamedTuple

from legs.models import MPLEGS, Ensemble, LEGSNet, Network
from legs.nn import Column, Scattering
from legs.nn.columns import SIZE_COLUMNS


class PathColumn(NamedTuple):
    """Path and moment of a graph feature, for people."""

    path: str
    moment: str


def path_columns(network: Network, width: int) -> list[PathColumn]:
    """Paths of a network's graph features; empty if they are no scattering.

    Args:
        network: any.
        width: number of its graph features.

    >>> from legs.models import create
    >>> network = create("legs-fcn", 1, 2)
    >>> path_columns(network, network.scattering.out_channels)[-1]
    PathColumn(path='Ψ3 Ψ4', moment='kurtosis')
    """
    if isinstance(network, LEGSNet | MPLEGS):
        return _named(network.scattering)
    if isinstance(network, Ensemble) and isinstance(network.second, LEGSNet):
        second = _named(network.second.scattering)
        # What the other network says has no path.
        return [PathColumn("other network", "other network")] * (width - len(second)) + second
    return []


def _named(scattering: Scattering) -> list[PathColumn]:
    last = scattering.selection.num_scales
    return [PathColumn(_path(column, last), column.moment) for column in scattering.columns()]


def _path(column: Column, last: int) -> str:
    if column.channel >= 0:
        return path_name(column.path, last)
    return "size" if column in SIZE_COLUMNS else "mixed"


def path_name(path: tuple[int, ...], num_scales: int) -> str:
    """A path as people write it.

    >>> path_name((), 5), path_name((0, 2), 5), path_name((1, 5), 5)
    ('x', 'Ψ0 Ψ2', 'Ψ1 Φ')
    """
    return " ".join("Φ" if j == num_scales else f"Ψ{j}" for j in path) or "x"
