"""The plain formulation that the benchmark compares with computes the same."""

import torch

from benchmarks.plain import molecules, plain_scattering
from legs import Scattering


def test_plain_formulation_is_the_reference():
    x, edge_index, batch = molecules(graphs=5)
    edge_index = edge_index[:, (edge_index != len(x) - 1).all(0)]  # a node without edges
    module = Scattering(2, backend="reference").double()
    theta = module.selection.theta
    results = []
    for out in (
        module(x.double(), edge_index, batch=batch),
        plain_scattering(theta, x.double(), edge_index, batch),
    ):
        weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        results.append([out, *torch.autograd.grad(out, theta, weight)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
