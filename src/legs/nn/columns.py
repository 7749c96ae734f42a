"""Names for the output columns of scattering."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch_geometric.nn.aggr import Aggregation, MultiAggregation

from legs.functional.scattering import Path
from legs.nn.moments import Moments


class Column(NamedTuple):
    """One output column of :class:`~legs.nn.Scattering`."""

    path: Path
    channel: int
    moment: str
    name: str


MOST_COLUMNS = 2_000_000
# Of whole graphs: no path, no channel.
SIZE_COLUMNS = [Column((), -1, "size", name) for name in ("nodes", "edges")]


def name_columns(
    paths: list[Path],
    in_channels: int,
    num_scales: int,
    aggr: Aggregation | None,
    parts: tuple[str, ...] = ("",),
    low_parts: tuple[str, ...] = ("",),
) -> list[Column]:
    """One :class:`Column` per output of ``aggr`` over some paths and channels.

    ``parts`` and ``low_parts`` are the names of the parts that a nonlinearity makes of a wavelet
    and of a low-pass (:func:`legs.functional.scattering_paths`).
    """
    wavelets = [(j, f"psi{j}{part}") for j in range(num_scales) for part in parts]
    steps = [*wavelets, *((num_scales, f"phi{part}") for part in low_parts)]

    def column(path: Path, channel: int, moment: str) -> Column:
        labels = [f"x{channel}", *(steps[j][1] for j in path), moment]
        return Column(
            tuple(steps[j][0] for j in path), channel, moment, ".".join(labels).strip(".")
        )

    if len(paths) * in_channels > MOST_COLUMNS:
        raise ValueError(f"{in_channels} channels have more than {MOST_COLUMNS:,} columns")
    pairs = [(path, channel) for path in paths for channel in range(in_channels)]
    if aggr is None or isinstance(aggr, Moments):
        names = ("",) if aggr is None else aggr.names
        return [column(path, channel, name) for path, channel in pairs for name in names]

    joined = isinstance(aggr, MultiAggregation) and aggr.mode == "cat"
    kinds: Any = aggr.aggrs if joined else [aggr]
    kind_names = [type(kind).__name__.removesuffix("Aggregation").lower() for kind in kinds]
    nodes = torch.zeros(2, len(pairs)), torch.zeros(2, dtype=torch.long)
    try:
        with torch.no_grad():  # PyG's aggregations have no common attribute for their width
            width = copy.deepcopy(aggr).eval()(*nodes, dim_size=1).shape[-1]
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"aggr={aggr} does not take the {len(pairs)} columns that scattering gives it: {error}"
        ) from error
    if width == len(kind_names) * len(pairs):
        return [column(path, channel, name) for name in kind_names for path, channel in pairs]
    # Recurrent or sorting aggregations: their outputs mix all columns.
    name = "-".join(kind_names)
    return [Column((), -1, name, f"{name}{i}") for i in range(width)]


def columns_of_features(columns: Sequence[Column], features: Sequence[str]) -> list[str]:
    """Names of scattering's columns with the names of node features in place of channels.

    >>> from legs import Scattering
    >>> columns_of_features(Scattering(1, order=1, num_scales=2).columns(), ["degree"])[4]
    'degree.psi0.mean'
    """
    return [
        column.name
        if column.channel < 0
        else features[column.channel] + column.name.removeprefix(f"x{column.channel}")
        for column in columns
    ]
