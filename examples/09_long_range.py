"""
Long range
==========

Two nodes of a path are marked. Are they 8 apart, or 12? A network of three message-passing layers
cannot know: no node sees both marks, so the nodes see the same things in both classes, and the
network gives the same answer for every graph. A diffusion of 16 steps reaches across.
"""

import torch
from torch_geometric.data import Data

from legs.data import from_objects
from legs.training import TrainingOptions, default_split, fit

# %%
# Paths of 50 nodes; the marks are somewhere, but never near an end.
NODES = 50
torch.manual_seed(0)
step = torch.stack([torch.arange(NODES - 1), torch.arange(1, NODES)])
edge_index = torch.cat([step, step.flip(0)], dim=1)


def path(distance):
    first = int(torch.randint(5, NODES - distance - 5, ()))
    x = torch.zeros(NODES, 1)
    x[[first, first + distance]] = 1
    return Data(x=x, edge_index=edge_index)


graphs = [path((8, 12)[i % 2]) for i in range(200)]
data = from_objects(graphs, y=["near", "far"] * 100, name="paths")

# %%
# The same split and the same training for all. A deep GCN can do it as well: eight layers reach as
# far as needed. With scattering one need not know the depth beforehand, and has fewer parameters.
options = TrainingOptions(max_epochs=60, lr=0.003)
split = default_split(data)
accuracy = {}
for name, model, more in (
    ("GCN, 3 layers", "gcn", {}),
    ("GIN, 3 layers", "gin", {}),
    ("GCN, 8 layers", "gcn", {"num_layers": 8}),
    ("LEGS, 16 steps", "legs-fcn", {}),
):
    fitted = fit(data, model, split, options, model_options=more)
    accuracy[name] = fitted.scores["test"]["accuracy"]
    count = fitted.predictor.num_parameters()
    print(f"{name:15} {count:7,} parameters, accuracy {accuracy[name]:.0%}")
