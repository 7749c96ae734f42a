"""What all estimators share: reading graphs, and aligning node features with those in ``fit``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.features.blocks import assemble
from legs.data.readers.objects import read_objects
from legs.nn.scattering import RENAMED

Graphs: TypeAlias = Iterable[Any] | GraphDataset


class GraphEstimator(BaseEstimator):
    """An estimator of graphs that remembers the node features of ``fit``."""

    def _set_features(self, data: GraphDataset) -> None:
        self.features_: tuple[str, ...] = data.info["features"]
        self.node_features_ = data.feature_names
        self.in_channels_ = data.in_channels

    def _read(self, X: Graphs) -> GraphDataset:
        check_is_fitted(self)
        return align(read_graphs(X, self.features_), self.node_features_)

    def _option(self, name: str) -> Any:
        """The value of an option, which may have been passed under its old name."""
        old = next((old for old, new in RENAMED.items() if new == name), name)
        if old == name or getattr(self, old) is None:
            return getattr(self, name)
        message = f"{old}= of {type(self).__name__} is deprecated; use {name}="
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(self, old)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a list of graphs
        tags.input_tags.string = True  # SMILES
        tags.no_validation = True
        return tags


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
    """The columns of ``data.x`` in the order of the names in ``fit``."""
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
            f"node features differ from those in fit, which were {_abbreviate(wanted)}: "
            f"there are {data.in_channels} instead of {len(wanted)}; "
            f"missing: {_abbreviate(missing)}; new: {_abbreviate(unseen)}"
        )
    x = torch.zeros(data.num_nodes, len(wanted))
    x[:, [wanted.index(name) for name in names]] = data.x
    return replace(data, x=x, feature_names=wanted)


def _anonymous(names: Sequence[str]) -> bool:
    """Whether columns have default names only, x0, x1, …"""
    return all(re.fullmatch(r"x\d+", name) for name in names)


def _abbreviate(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more
