from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap

from legs.kernels import cpu, use
from legs.kernels.fused import make_batch, mixed_filters, scattering_moments
from legs.nn import Scattering
from tests.graphs import path_graph, random_graph

pytestmark = pytest.mark.skipif(not cpu.available(), reason="numba is not installed")


def given():
    first, second = random_graph(9, torch.Generator().manual_seed(2)), path_graph(5)
    edge_index = torch.cat([first.edge_index, second.edge_index + 9], dim=1)
    batch = torch.tensor([0] * 9 + [1] * 5)
    x = torch.rand(14, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return x, edge_index, batch


@pytest.mark.long
def test_gradient_by_differences():
    x, edge_index, batch = given()
    graphs = make_batch(x, edge_index, None, batch, 2)
    module = Scattering(2, num_scales=3, steps=5, laziness=0.6).double()
    filters = mixed_filters(module.selection(), 0.6, 2).detach().contiguous().requires_grad_()
    assert torch.autograd.gradcheck(lambda f: scattering_moments(graphs, f), filters, atol=1e-4)


def test_signals_of_another_type_than_the_scales():
    x, edge_index, batch = given()
    module = Scattering(2)  # of single numbers
    with torch.no_grad():
        module.selection.theta += torch.rand(5, 16, generator=torch.Generator().manual_seed(4))
    found = []
    for choice in ("reference", "fused"):
        with use(choice):
            out = module(x, edge_index, batch=batch)
        found.append([out, *torch.autograd.grad(out.square().sum(), module.selection.theta)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6 if a.dtype == torch.float32 else 1e-9, atol=1e-9)


def test_maps_over_models_forward_and_backward():
    x, edge_index, batch = given()
    modules = [Scattering(2, num_scales=3, steps=5).double() for _ in range(3)]
    for number, module in enumerate(modules):
        with torch.no_grad():
            module.selection.theta += 0.3 * torch.randn(
                3, 5, generator=torch.Generator().manual_seed(number), dtype=torch.float64
            )
    parameters, _ = stack_module_state(modules)

    def loss(parameters):
        out = functional_call(modules[0], parameters, (x, edge_index, None, batch, 2))
        return out.square().sum()

    with use("fused"):
        inside = vmap(grad(loss))(parameters)["selection.theta"]
        total = vmap(loss)(parameters).sum()
        (outside,) = torch.autograd.grad(total, parameters["selection.theta"])
    with use("reference"):
        expected = [
            torch.autograd.grad(
                loss({"selection.theta": module.selection.theta}), module.parameters()
            )[0]
            for module in modules
        ]
    torch.testing.assert_close(inside, torch.stack(expected), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(outside, torch.stack(expected), rtol=1e-9, atol=1e-9)


def test_graphs_of_their_own_for_every_model_are_refused():
    x, edge_index, batch = given()
    filters = torch.rand(2, 3, 5, dtype=torch.float64)

    def run(x):
        return scattering_moments(make_batch(x, edge_index, None, batch, 2), filters)

    with pytest.raises(RuntimeError, match="same for all models"):
        vmap(run)(torch.stack([x, x]))
