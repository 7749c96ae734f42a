"""
Scattering of one graph
=======================

A signal on a graph goes in, a row of named features comes out. Renumbering the nodes does not
change it.
"""

import networkx as nx
import torch
from torch_geometric.utils import from_networkx

from legs import Scattering
from legs.report import save, wavelet_figure

# %%
# Zachary's karate club: 34 people, and who knows whom. The signal is the side each one took when
# the club split.
graph = nx.karate_club_graph()
edge_index = from_networkx(graph).edge_index
x = torch.tensor([[float(club == "Mr. Hi")] for _, club in graph.nodes(data="club")])

# %%
# Five wavelets, at the diffusion times 1, 2, 4, 8 and 16; paths of up to two of them; four moments
# over the nodes. Nothing is learned here.
scattering = Scattering(in_channels=1, scales="dyadic")
features = scattering(x, edge_index)
print(f"{features.shape[1]} numbers describe the graph, for instance")
for column, value in list(zip(scattering.columns(), features[0], strict=True))[4:12]:
    print(f"  {column.name:20} {value:8.3f}")

# %%
# The same people in another order: the same numbers, up to rounding.
order = torch.randperm(len(x))
place = order.argsort()
moved = scattering(x[order], place[edge_index])
print(f"largest change by renumbering: {(moved - features).abs().max():.1e}")

# %%
# The wavelets of one person: each looks at another distance from the instructor (node 0). Their sum
# is the signal.
edges = torch.tensor(list(graph.edges)).numpy()
weights = scattering.scale_weights().double().numpy()
figure = wavelet_figure(edges, len(x), weights, centre=0)
save(figure, "wavelets")
