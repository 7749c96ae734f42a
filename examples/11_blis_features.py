"""
Signs and energy: BLIS features with an SVM
===========================================

Handwritten digits as signals on a grid of pixels. ``nonlinearity="relu-pair"`` keeps the sign and
the energy of every band, as in BLIS; absolute values lose the sign.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch_geometric.utils import grid

from legs import Moments, Scattering

digits, y = load_digits(return_X_y=True)
digits, y = digits[:600], y[:600]
edge_index, _ = grid(8, 8)

# %%
# Every digit is a channel: one graph, 600 signals at once.
x = torch.tensor(digits.T / 16, dtype=torch.float32)


def score(order: int, nonlinearity: str) -> float:
    options = {"scales": "dyadic", "order": order, "aggr": Moments("mean", 2), "flatten": False}
    module = Scattering(len(y), operator="symmetric", nonlinearity=nonlinearity, **options)
    features = module(x, edge_index)[0].movedim(1, 0).flatten(1).numpy()
    svm = make_pipeline(StandardScaler(), SVC(C=10))
    return float(np.mean(cross_val_score(svm, features, y, cv=3)))


accuracy = {"relu-pair": score(2, "relu-pair"), "abs": score(2, "abs")}
baseline = score(0, "abs")  # moments of the pixels
print(f"pixels {baseline:.1%}, bands:", {name: f"{value:.1%}" for name, value in accuracy.items()})
