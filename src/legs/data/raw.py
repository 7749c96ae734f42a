"""Graphs as read from a source, before node features are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from legs.data.dataset import Task


class Features(NamedTuple):
    """A block of node features."""

    x: Tensor  # [nodes, columns], float32
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RawGraphs:
    """What a reader returns: structure, targets, and the node features its source can offer.

    Args:
        ptr: node offsets of the graphs, ``[graphs + 1]``, int64.
        edge_index: edges of all graphs, numbered through, ``[2, edges]``, both directions.
        edge_weight: ``[edges]`` or ``None``.
        y: classes ``[graphs]`` (int64) or numbers ``[graphs, targets]`` (float32, NaN: missing).
        blocks: feature blocks by name (``"labels"``, ``"attributes"``, ``"atoms"``, ``"qm9"``,
            ``"chem"``), each a function, so that only what is asked for is computed. Blocks that
            follow from the structure alone (``"structure"``, ``"degree"``) are not listed here.
        default_features: blocks to use where the user names none.
        info: source, licence note, groups for splitting, bad rows, …
    """

    ptr: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    task: Task | None = None
    name: str = ""
    class_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    smiles: tuple[str, ...] = ()
    blocks: Mapping[str, Callable[[], Features]] = field(default_factory=dict)
    default_features: tuple[str, ...] = ("structure",)
    info: Mapping[str, Any] = field(default_factory=dict)
