"""Ten lines that need the core alone: run with the wheel, and nothing else, installed."""

import torch

from legs import LEGSNet, Scattering
from legs.nn import FCN

scattering = Scattering(in_channels=2)
model = LEGSNet(scattering, FCN(scattering.out_channels, 3))
edge_index = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
batch = torch.tensor([0, 0, 0, 1, 1])
scores = model(torch.rand(5, 2), edge_index, batch=batch)
scores.sum().backward()
print(scores.shape, scattering.expected_scales())
