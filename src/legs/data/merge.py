"""Several readers' graphs as one set, in a given order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from legs.data.dataset import _ranges
from legs.data.errors import DataError
from legs.data.raw import Features, RawGraphs


def merge(
    parts: Sequence[RawGraphs], places: Sequence[Sequence[int]], kinds: Sequence[str]
) -> RawGraphs:
    """Puts the graphs of several readers into one order. Targets and the like are left out.

    A block of features is offered if any part offers it; asking for it raises
    :class:`DataError` unless all parts have it, with the same columns.

    Args:
        parts: graphs as read.
        places: the number of every graph of every part in the whole.
        kinds: what the graphs of each part are, for messages.

    >>> dots = RawGraphs(torch.tensor([0, 1, 2]), torch.empty(2, 0, dtype=torch.long))
    >>> line = RawGraphs(torch.tensor([0, 2]), torch.tensor([[0, 1], [1, 0]]))
    >>> both = merge([dots, line], [[0, 2], [1]], ["a dot", "a line"])
    >>> both.ptr, both.edge_index
    (tensor([0, 1, 3, 4]), tensor([[1, 2],
            [2, 1]]))
    """
    sizes = torch.cat([part.ptr.diff() for part in parts])
    _, starts = _ranges(torch.zeros_like(sizes), sizes)
    order = torch.argsort(torch.tensor(list(chain(*places))))
    nodes, ptr = _ranges(starts[:-1][order], sizes[order])
    moved = torch.empty_like(nodes)
    moved[nodes] = torch.arange(len(nodes))
    first = np.cumsum([0, *(int(part.ptr[-1]) for part in parts)])[:-1].tolist()
    edges = torch.cat([part.edge_index + o for part, o in zip(parts, first, strict=True)], dim=1)
    weight = None
    if any(part.edge_weight is not None for part in parts):
        weight = torch.cat([_weights(part) for part in parts])
    offered = dict.fromkeys(chain.from_iterable(part.blocks for part in parts))
    special = [part.default_features for part in parts if part.default_features != ("structure",)]
    return RawGraphs(
        ptr,
        moved[edges],
        weight,
        blocks={name: partial(_block, name, parts, places, kinds, nodes) for name in offered},
        default_features=special[0] if special else ("structure",),
    )


def _weights(part: RawGraphs) -> Tensor:
    if part.edge_weight is None:
        return torch.ones(part.edge_index.shape[1])
    return part.edge_weight.float()


def _block(
    name: str,
    parts: Sequence[RawGraphs],
    places: Sequence[Sequence[int]],
    kinds: Sequence[str],
    nodes: Tensor,
) -> Features:
    found: list[Features] = []
    for part, numbers, kind in zip(parts, places, kinds, strict=True):
        if name not in part.blocks:
            raise DataError(
                f"graph {numbers[0]} ({kind}) has no node features {name!r}, other graphs have; "
                "choose features that all have, such as features='structure'"
            )
        found.append(part.blocks[name]())
        if found[-1].names != found[0].names:
            raise DataError(
                f"graph {numbers[0]} ({kind}) has the {name} {', '.join(found[-1].names)}, graph "
                f"{places[0][0]} ({kinds[0]}) {', '.join(found[0].names)}; choose features that "
                "agree, such as features='structure'"
            )
    return Features(torch.cat([block.x for block in found])[nodes], found[0].names)
