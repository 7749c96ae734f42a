"""Statistics of a data set, and the paper's (its Table I) beside them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from legs.data.errors import DataError
from legs.data.features.structure import clustering_coefficient, eccentricity, is_connected

if TYPE_CHECKING:
    from legs.data.dataset import GraphDataset

PRINTED = ("graphs", "classes", "nodes", "edges", "diameter", "clustering")  # in Table I


class Statistics(NamedTuple):
    """What Table I of the paper reports of a data set, and the share of connected graphs."""

    name: str
    graphs: int
    classes: int  # 0 where the task is another
    nodes: float  # mean over graphs
    edges: float  # mean over graphs; undirected, self-loops left out
    diameter: float  # mean over connected graphs; NaN where there are none
    clustering: float  # mean over graphs of the mean over their nodes
    connected: float  # share of graphs


class Comparison(NamedTuple):
    """One of our numbers beside the paper's."""

    quantity: str
    ours: float
    printed: str
    agrees: bool  # to the printed digits


def describe(dataset: GraphDataset) -> Statistics:
    """Statistics of a data set.

    >>> import torch
    >>> from legs.data.dataset import GraphDataset
    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> describe(GraphDataset.from_edges(torch.ones(3, 1), torch.tensor([0, 3]), path))
    Statistics(name='', graphs=1, classes=0, nodes=3.0, edges=2.0, diameter=2.0, clustering=0.0,
               connected=1.0)
    """
    if len(dataset) == 0 or bool((dataset.sizes == 0).any()):
        raise DataError(f"{dataset.name or 'the data set'} has no graphs, or graphs without nodes")
    csr = ptr, rowptr, col = [t.numpy() for t in (dataset.ptr, dataset.rowptr, dataset.col)]
    distances, clustering = eccentricity(*csr).astype(np.float64), clustering_coefficient(*csr)
    rows = np.repeat(np.arange(len(rowptr) - 1, dtype=col.dtype), np.diff(rowptr))
    connected = is_connected(*csr)
    diameter = np.maximum.reduceat(distances, ptr[:-1])[connected]
    return Statistics(
        name=dataset.name,
        graphs=len(dataset),
        classes=len(dataset.class_names),
        nodes=dataset.num_nodes / len(dataset),
        edges=int(np.count_nonzero(rows != col)) / 2 / len(dataset),
        diameter=float(diameter.mean()) if len(diameter) else float("nan"),
        clustering=float(np.mean(np.add.reduceat(clustering, ptr[:-1]) / np.diff(ptr))),
        connected=float(connected.mean()),
    )


def compare(ours: Statistics) -> list[Comparison]:
    """The numbers of a set beside those of the paper's Table I; ``[]`` if it is not in there."""
    rows = []
    for quantity, printed in paper_statistics().get(ours.name, {}).items():
        value, digits = getattr(ours, quantity), len(printed.partition(".")[2])
        # Half a unit of the last digit, and a little for values on the edge of rounding.
        agrees = abs(value - float(printed)) <= 0.5 * 10**-digits + 1e-9
        rows.append(Comparison(quantity, value, printed, agrees))
    return rows


def check(names: Sequence[str] = ()) -> Iterator[tuple[Statistics, list[Comparison]]]:
    """Loads sets of the paper's Table I (default: all 13) and compares them with it."""
    from legs.data.loading import load

    for name in names or paper_statistics():
        ours = describe(load(name, features="structure"))
        rows = compare(ours)
        if not rows:
            raise DataError(f"the paper's Table I has no {ours.name}")
        yield ours, rows


@cache
def paper_statistics() -> dict[str, dict[str, str]]:
    """The paper's Table I as printed: by set, then by quantity as in :class:`Statistics`."""
    text = (files("legs.data") / "paper_dataset_stats.csv").read_text(encoding="utf-8")
    return {row.pop("name"): row for row in csv.DictReader(text.splitlines())}
