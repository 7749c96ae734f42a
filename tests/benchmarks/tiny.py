"""A plan that takes seconds, and the only data set it finds."""

from __future__ import annotations

import torch

from benchmarks.speed import Plan
from benchmarks.speed import graphs as made
from legs.data.dataset import GraphDataset
from legs.data.errors import DataError

TINY = Plan(
    sets=("NCI1", "PROTEINS"),
    graphs=4,
    models=2,
    edges=(400,),
    channels=3,
    steps=2,
    whole_step_up_to=400,
    nodes=64,  # so few that nothing is compiled
    series={"edges": (128, 256), "steps": (8, 16)},
    rounds=1,
    least=1,
    seconds=0.01,
    copied=2**16,
    matrix=16,
)


CPU = torch.device("cpu")


def small(name: str) -> GraphDataset:
    """Six graphs of 32 nodes in place of NCI1; there is no other set."""
    if name != "NCI1":
        raise DataError(f"{name} is not here")
    graphs = made.random_graphs(192, 768, 2)
    ptr = torch.arange(0, 193, 32)
    rowptr = torch.arange(0, 769, 4)
    return GraphDataset(graphs.x, ptr, rowptr, graphs.edge_index[0].int(), name="NCI1")
