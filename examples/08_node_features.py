"""
Node-level features
===================

With ``aggr=None`` scattering describes nodes instead of graphs, one row per node. Nodes that play
the same role get similar rows, wherever they are.
"""

import matplotlib.pyplot as plt
import networkx as nx
import torch
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler
from torch_geometric.utils import from_networkx

from legs import Scattering
from legs.training import TrainingOptions, fit_nodes

# %%
# A ring of 30 nodes; at every fifth hangs a clique of five. The only signal is one over the degree.
# (The degree itself would do nothing: diffusion leaves it unchanged.)
graph = nx.cycle_graph(30)
for anchor in range(0, 30, 5):
    graph = nx.disjoint_union(graph, nx.complete_graph(5))
    graph.add_edge(anchor, len(graph) - 5)
data = from_networkx(graph)
data.x = torch.tensor([[1 / degree] for _, degree in graph.degree])

# %%
# Clusters, found without labels: the inside of the cliques, their gates, the nodes where they hang,
# the neighbours of those, and the rest of the ring.
features = Scattering(1, scales="dyadic", num_scales=3, aggr=None)(data.x, data.edge_index)
groups = KMeans(5, n_init=10, random_state=0).fit_predict(StandardScaler().fit_transform(features))
sizes = sorted(int((groups == k).sum()) for k in range(5))
print(f"{len(features)} nodes, {features.shape[1]} features; sizes of the groups: {sizes}")
figure, axis = plt.subplots(figsize=(5, 5), layout="constrained")
places = nx.kamada_kawai_layout(graph)
nx.draw_networkx(graph, places, node_color=groups, cmap="Set2", node_size=90, with_labels=False)
axis.set_axis_off()
figure.savefig("groups.png", dpi=110)

# %%
# With classes known for some nodes, :func:`legs.training.fit_nodes` trains a network for the
# others: here, to separate ring and clique by a noisy signal.
data.y = (torch.arange(60) >= 30).long()
data.x = data.x + 0.2 * torch.randn(60, 1, generator=torch.Generator().manual_seed(0))
place = torch.randperm(60, generator=torch.Generator().manual_seed(0))
data.train_mask, data.val_mask, data.test_mask = (place % 3 == k for k in range(3))
fitted = fit_nodes(data, "legs-fcn", TrainingOptions(max_epochs=60, lr=0.01))
accuracy, baseline = (fitted.scores[part]["accuracy"] for part in ("test", "guess"))
print(f"accuracy on the test nodes: {accuracy:.0%}, baseline {baseline:.0%}")
