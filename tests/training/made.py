"""A small data set for training: trees and rings with chords, told apart by their structure."""

from dataclasses import replace

import numpy as np
import torch
from torch_geometric.data import Data

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.training import TrainingOptions

TARGETS = ("nodes", "edges", "heat")

# Few epochs, many validations: enough to see what a test asks for.
QUICK = TrainingOptions(max_epochs=4, validate_every=2, batch_size=16, lr=3e-3)


def graph(kind, size, rng):
    """Class 0: a random tree, 1: a ring with a chord."""
    nodes = np.arange(size)
    if kind:
        pairs = np.stack([nodes, np.roll(nodes, 1)], axis=1)
        pairs = np.vstack([pairs, [0, size // 2]])
    else:
        pairs = np.stack([nodes[1:], [rng.integers(i) for i in nodes[1:]]], axis=1)
    edges = torch.as_tensor(np.concatenate([pairs, pairs[:, ::-1]]).T.copy())
    degree = torch.bincount(edges[0], minlength=size).float()
    x = torch.stack([degree, torch.as_tensor(rng.random(size)).float()], dim=1)
    return Data(x=x, edge_index=edges)


def made_data(task="classification", graphs=60, *, weighted=False, seed=0):
    """Graphs of 5 to 12 nodes; two classes, or three numbers."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(graphs) % 2
    found = [graph(kind, int(rng.integers(5, 13)), rng) for kind in kinds]
    if weighted:
        for one in found:
            source, target = one.edge_index
            one.edge_weight = 0.5 + ((source + target) % 3).float()
    known = {"task": task, "feature_names": ("degree", "noise"), "info": {"features": ["own"]}}
    known["ids"] = tuple(f"g{i}" for i in range(graphs))
    data = GraphDataset.from_pyg(found, **known)
    if task == "classification":
        return replace(data, y=torch.as_tensor(kinds), class_names=("tree", "ring"))
    edges = torch.tensor([float(one.num_edges) for one in found]) / 2
    heat = 300 + 5 * torch.stack([one.x[:, 1].mean() for one in found])
    y = torch.stack([data.sizes.float(), 1000 * edges, heat], dim=1)
    return replace(data, y=y, target_names=TARGETS)


def made_split(graphs=60):
    """Every fifth graph validates, every fifth tests; both classes in each."""
    part = np.arange(graphs) // 2 % 5
    return Split(np.flatnonzero(part < 3), np.flatnonzero(part == 3), np.flatnonzero(part == 4))


def weights_of(fitted):
    """Everything a model has learned, as named tensors."""
    return fitted.predictor.answerer.state_dict()


def assert_same(a, b):
    """Bit for bit."""
    assert a.keys() == b.keys()
    different = [name for name in a if not torch.equal(a[name], b[name])]
    assert not different


def renumbered(data, seed=0):
    """The same graphs with their nodes in another order, and the order of all nodes."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.cat(
        [
            int(start) + torch.randperm(int(size), generator=generator)
            for start, size in zip(data.ptr[:-1], data.sizes, strict=True)
        ]
    )
    place = torch.argsort(order)
    whole = data.whole()
    known = {
        name: getattr(data, name)
        for name in ("y", "task", "feature_names", "class_names", "target_names", "ids", "info")
    }
    edges = place[whole.edge_index]
    return GraphDataset.from_edges(data.x[order], data.ptr, edges, whole.edge_weight, **known)
