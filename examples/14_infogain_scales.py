"""
Scales from the data: InfoGain against dyadic
=============================================

``scales="infogain"`` chooses diffusion times, without labels, so that each wavelet stands for an
equal share of the information that diffusion loses. Synthetic: bumps of two widths on rings.
"""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch_geometric.utils import to_undirected

from legs import Scattering

rng = np.random.default_rng(0)
nodes, count, half = 64, 300, 150
y = np.arange(count) % 2
place, width = rng.integers(0, nodes, count)[:, None], 4 * 1.1 ** y[:, None]
distance = np.abs((np.arange(nodes) - place + nodes // 2) % nodes - nodes // 2)
signals = np.exp(-((distance / width) ** 2) / 2) + 0.4 * rng.random((count, nodes))
x = torch.tensor(signals, dtype=torch.float32).reshape(-1, 1)
ring = to_undirected(torch.stack([torch.arange(nodes), torch.arange(nodes).roll(-1)]))
edge_index = torch.cat([ring + nodes * g for g in range(count)], dim=1)
batch, first = torch.arange(count).repeat_interleave(nodes), edge_index[0] < half * nodes

# %%
# The scales are fitted to the first half of the graphs, as the classifier is.
infogain, accuracy = Scattering(1, scales="infogain", order=1), {}
infogain.fit_scales(x[: half * nodes], edge_index[:, first], batch=batch[: half * nodes])
for name, module in {
    "infogain": infogain,
    "dyadic": Scattering(1, scales="dyadic", order=1),
}.items():
    features = module(x, edge_index, batch=batch).numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    accuracy[name] = model.fit(features[:half], y[:half]).score(features[half:], y[half:])
print(f"times: {infogain.selection.initial}; accuracy: {accuracy}; guessing: 0.5")
