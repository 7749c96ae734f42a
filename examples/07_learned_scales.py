"""
Learned scales and frequency responses
======================================

The diffusion times of the wavelets are parameters. Here there is something to learn: signals on
rings, whose classes differ in the frequency band that carries their energy.
"""

import numpy as np
import torch
from torch import nn
from torch_geometric.utils import to_undirected

from legs import LEGSNet, Scattering
from legs.nn import FCN
from legs.report import response_figure, save

# %%
# Rings of 64 nodes. Both classes carry as much energy: at wave numbers 5 and 6, or at 7 and 8.
rng = np.random.default_rng(0)
torch.manual_seed(0)
nodes, count = 64, 200
angle = 2 * np.pi * np.arange(nodes) / nodes
y = np.arange(count) % 2
waves = 5 + 2 * y[:, None] + np.arange(2)
phase = rng.uniform(0, 2 * np.pi, (count, 2, 1))
signals = np.cos(waves[..., None] * angle + phase).sum(1) + rng.normal(0, 1.5, (count, nodes))
x, y = torch.tensor(signals, dtype=torch.float32).reshape(-1, 1), torch.tensor(y)
ring = to_undirected(torch.stack([torch.arange(nodes), torch.arange(nodes).roll(-1)]))
edge_index = torch.cat([ring + nodes * g for g in range(count)], dim=1)
batch = torch.arange(count).repeat_interleave(nodes)

# %%
# A larger learning rate for the scales: they are few, and the head learns faster.
scattering = Scattering(in_channels=1, num_scales=4, order=1)
model = LEGSNet(scattering, FCN(scattering.out_channels, 2, hidden_channels=16))
start = scattering.scale_weights().detach().double().numpy()
groups = [{"params": scattering.parameters(), "lr": 0.1}, {"params": model.head.parameters()}]
optimizer = torch.optim.Adam(groups, lr=0.003)
for _ in range(100):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x, edge_index, batch=batch), y)
    loss.backward()
    optimizer.step()

print("mean diffusion times at the start: 1, 2, 4, 8")
print("learned:", ", ".join(f"{t:.1f}" for t in scattering.expected_scales()))
lower, upper = scattering.frame_bounds()
print(f"frame bounds {lower:.3f} and {upper:.3f}: the bank never expands, whatever is learned")

# %%
# Solid: learned. Dashed: at the start.
learned = scattering.scale_weights().detach().double().numpy()
figure = response_figure(scattering, fixed=start)
save(figure, "responses")
