"""
Point clouds
============

Nearest neighbors are a graph, coordinates its signals; their mean squares ignore rotations.
"""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch_geometric.data import Batch, Data

from legs import Moments, Scattering
from legs.data import point_graph

rng = np.random.default_rng(0)
count, size, half = 120, 150, 60
y, graphs = np.arange(count) % 2, []
for kind in y:
    points = rng.normal(size=(size, 3)) * [1, 1, 1 - kind]
    points /= np.linalg.norm(points, axis=1, keepdims=True)  # a sphere, or a ring
    points += kind * 0.4 * rng.normal(size=points.shape)  # a torus, filled
    points = torch.tensor(points / points.std() + rng.normal(0, 0.2, points.shape))
    edge_index, weight = point_graph(points.float(), k=8)
    graphs.append(Data(x=points.float(), edge_index=edge_index, edge_weight=weight))
data = Batch.from_data_list(graphs)


def score(order: int) -> float:
    options = {"order": order, "aggr": Moments("mean", 2), "flatten": False}
    module = Scattering(3, scales="dyadic", operator="symmetric", **options)
    squares = module(data.x, data.edge_index, data.edge_weight, data.batch)[..., 1].mean(2).numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return float(model.fit(squares[:half], y[:half]).score(squares[half:], y[half:]))


accuracy, baseline = score(2), score(0)
print(f"scattering {accuracy:.1%}, size of the cloud alone {baseline:.1%}")
