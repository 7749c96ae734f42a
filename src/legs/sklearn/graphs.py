"""What the estimators share about their input: reading graphs, and the columns seen in ``fit``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.features.blocks import assemble
from legs.data.readers.objects import read_objects

Graphs: TypeAlias = Iterable[Any] | GraphDataset


def read_graphs(X: Graphs, features: str | Sequence[str] | None = None) -> GraphDataset:
    """Graphs as a data set with the node features ``features``; ``info["features"]`` names them.

    A data set already made is taken as it is if these are its features, or none are asked for.

    >>> read_graphs(["CCO", "C"]).info["features"]
    ('chem',)
    """
    if isinstance(X, GraphDataset):
        if not len(X):
            raise DataError("the data set holds no graphs")
        blocks = tuple(X.info.get("features", ("attributes",)))
        asked = features.split("+") if isinstance(features, str) else features
        fits = asked is None or tuple(name.strip() for name in asked) == blocks
        if fits and X.feature_names:  # columns without names get some below
            return replace(X, info={**X.info, "features": blocks})
    return assemble(read_objects(X), features)


def align(data: GraphDataset, wanted: tuple[str, ...]) -> GraphDataset:
    """The columns of ``data.x`` in the order of the names seen in ``fit``."""
    names = data.feature_names
    if names == wanted:
        return data
    if data.in_channels == len(wanted) and (_anonymous(names) or _anonymous(wanted)):
        return replace(data, feature_names=wanted)
    unseen = [name for name in names if name not in wanted]
    missing = [name for name in wanted if name not in names]
    # One-hot columns are named "label=C"; one that no graph has is a column of zeros.
    if unseen or any("=" not in name for name in missing):
        raise DataError(
            f"node features differ from those in fit, which were {_shown(wanted)}: "
            f"there are {data.in_channels} instead of {len(wanted)}; "
            f"missing: {_shown(missing)}; new: {_shown(unseen)}"
        )
    x = torch.zeros(data.num_nodes, len(wanted))
    x[:, [wanted.index(name) for name in names]] = data.x
    return replace(data, x=x, feature_names=wanted)


def _anonymous(names: Sequence[str]) -> bool:
    """Whether columns have no names of their own, only x0, x1, …"""
    return all(re.fullmatch(r"x\d+", name) for name in names)


def _shown(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more
