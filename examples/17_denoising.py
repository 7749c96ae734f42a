"""
Denoising and reconstruction by the inverse
===========================================

``inverse`` is the least-squares inverse of the filter bank: small wavelet coefficients are set to
zero, and the nearest signal is what is left. Coefficients of first order with both signs give the
signal back.
"""

import torch
from torch_geometric.utils import grid

from legs import Scattering

torch.manual_seed(0)
edge_index, place = grid(24, 24, dtype=torch.float64)
clean = ((place - 12).norm(dim=1, keepdim=True) < 7).double()  # a disc, with a sharp edge
noise = 0.2
noisy = clean + noise * torch.randn_like(clean)

# %%
# A band of white noise has the norm of the filter's rows as its standard deviation.
module = Scattering(1, scales=[1, 2, 4, 8], operator="symmetric").double()
bands, filters = module.bank(noisy, edge_index), module.matrices(edge_index)
level = noise * filters.norm(dim=2).T.unsqueeze(-1)
kept = torch.where(bands.abs() > 2.5 * level, bands, 0)
kept[:, -1] = bands[:, -1]  # the low-pass stays
denoised = module.inverse(kept, edge_index)
error = {"noisy": noisy, "low-pass": bands[:, -1], "denoised": denoised}
error = {name: float(((signal - clean) ** 2).mean()) for name, signal in error.items()}
print("mean squared errors:", {name: round(value, 4) for name, value in error.items()})

# %%
# First order, both signs, and the low-pass: enough to get the signal back.
options = {"nonlinearity": "relu-pair", "order": 1, "lowpass": True, "aggr": None, "flatten": False}
first = Scattering(1, scales=[1, 2, 4, 8], operator="symmetric", **options).double()
out = first(noisy, edge_index)[:, 1:10]  # four bands in two parts, then the low-pass of x
again = first.inverse(torch.cat([out[:, 0:8:2] - out[:, 1:8:2], out[:, 8:]], dim=1), edge_index)
print(f"reconstructed from scattering coefficients, to {float((again - noisy).abs().max()):.1e}")
