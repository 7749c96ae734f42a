"""
The layer inside a PyG model
============================

:class:`legs.Scattering` takes ``x, edge_index, edge_weight, batch`` like any layer of PyTorch
Geometric. Here it sits between a linear layer that mixes node features and a classifier.
"""

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import barabasi_albert_graph, erdos_renyi_graph, to_undirected

from legs import Scattering
from legs.nn import FCN

torch.manual_seed(0)


# %%
# Two kinds of random graphs with about as many edges: preferential attachment, and uniform.
def example(kind):
    edges = barabasi_albert_graph(30, 2) if kind else erdos_renyi_graph(30, 0.13)
    x = torch.cat([torch.ones(30, 1), torch.randn(30, 2)], dim=1)
    return Data(x=x, edge_index=to_undirected(edges), y=kind)


graphs = [example(i % 2) for i in range(240)]
train, test = DataLoader(graphs[:160], 32, shuffle=True), DataLoader(graphs[160:], 80)


# %%
# The scales of the wavelets are parameters, learned with the rest.
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(3, 4)
        self.scattering = Scattering(in_channels=4, num_scales=4, learn_laziness=True)
        self.head = FCN(self.scattering.out_channels, 2)

    def forward(self, data):
        x = self.mix(data.x).relu()
        return self.head(self.scattering(x, data.edge_index, batch=data.batch))


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(15):
    for data in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), data.y).backward()
        optimizer.step()

model.eval()
accuracy = sum(int((model(data).argmax(1) == data.y).sum()) for data in test) / len(test.dataset)
print(f"accuracy on {len(test.dataset)} new graphs: {accuracy:.0%}")
print("scales:", [round(t, 2) for t in model.scattering.expected_scales().tolist()])
