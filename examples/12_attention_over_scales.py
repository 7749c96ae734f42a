"""
Attention over scales, node by node
===================================

A labelled synthetic graph, three groups. Every node weighs the bands around it by itself.
"""

import torch
from torch import nn
from torch_geometric.utils import stochastic_blockmodel_graph, to_undirected

from legs import Scattering

torch.manual_seed(0)
y = torch.arange(3).repeat_interleave(100)
edges = stochastic_blockmodel_graph([100] * 3, torch.full((3, 3), 0.01) + 0.09 * torch.eye(3))
edge_index, train = to_undirected(edges, num_nodes=300), torch.rand(300) < 0.3
x = nn.functional.one_hot(y, 3) + 1.5 * torch.randn(300, 3)
bands = Scattering(3, scales=[1, 2, 4], operator="row").bank(x, edge_index)  # [nodes, 4, 3]


class ScaleAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score, self.out = nn.Linear(12, 4), nn.Linear(3, 3)

    def forward(self, bands: torch.Tensor) -> torch.Tensor:
        weights = self.score(bands.flatten(1)).softmax(1)
        return self.out((weights.unsqueeze(-1) * bands).sum(1))


accuracy = []
for model, inputs in (ScaleAttention(), bands), (nn.Linear(3, 3), x):
    optimizer = torch.optim.Adam(model.parameters(), 0.02, weight_decay=1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[train]), y[train]).backward()
        optimizer.step()
    accuracy.append(float((model(inputs[~train]).argmax(1) == y[~train]).float().mean()))
print(f"attention over scales {accuracy[0]:.1%}, features alone {accuracy[1]:.1%}")
