from __future__ import annotations

import pytest
import torch

from legs.kernels import chosen, cpu, path_of, use
from legs.nn import Scattering
from tests.graphs import random_graph

pytestmark = pytest.mark.skipif(not cpu.available(), reason="numba is not installed")


def test_use_holds_until_the_next_choice_or_the_end_of_a_block():
    assert chosen() == "auto"
    with use("reference"):
        assert chosen() == "reference"
        with use("fused"):
            assert chosen() == "fused"
        assert chosen() == "reference"
    before = use("fused")
    assert chosen() == "fused"
    before.__exit__()
    assert chosen() == "auto"
    with pytest.raises(ValueError, match='"auto", "reference" or "fused"'):
        use("fast")


def test_the_path_depends_on_what_is_asked_for():
    many, few = torch.rand(5000, 2), torch.rand(10, 2)
    assert path_of(many, graphs=100) == "cpu"
    assert path_of(few, graphs=2) == "reference"
    assert path_of(torch.rand(2_000_000, 1), graphs=1) == "reference"
    with use("fused"):
        assert path_of(few) == "cpu"
        assert path_of(few.double()) == "cpu"
        assert path_of(few.half()) == "reference"
        assert path_of(few.requires_grad_()) == "reference"
        with torch.no_grad():
            assert path_of(few) == "cpu"
        weights = torch.ones(3, requires_grad=True)
        assert path_of(torch.rand(10, 2), weights) == "reference"
    with use("reference"):
        assert path_of(many, graphs=100) == "reference"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": 1},
        {"lowpass": True},
        {"aggr": None},
        {"aggr": "mean"},
        {"num_scales": 1, "steps": 4},
        {"laziness": 0.7, "learn_laziness": "channel"},
        {"scales": "dyadic", "paths": "all", "num_scales": 3},
    ],
    ids=str,
)
def test_a_module_gives_the_same_either_way(options):
    """Where the kernels do not apply, nothing changes; where they do, only rounding."""
    graph = random_graph(12, torch.Generator().manual_seed(0))
    x = torch.rand(12, 2, dtype=torch.float64)
    module = Scattering(2, **options).double()
    parameters = [p for p in module.parameters() if p.requires_grad]
    found = []
    for choice in ("reference", "fused"):
        with use(choice):
            out = module(x, graph.edge_index)
            cotangent = torch.linspace(-1, 1, out.numel(), dtype=x.dtype).view_as(out)
            found.append(
                [out, *torch.autograd.grad(out, parameters, cotangent)] if parameters else [out]
            )
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_second_derivatives_say_where_they_are():
    graph = random_graph(8, torch.Generator().manual_seed(1))
    module = Scattering(2)  # as other tests have it: to compile kernels takes long
    with use("fused"):
        out = module(torch.rand(8, 2), graph.edge_index).square().sum()
    (first,) = torch.autograd.grad(out, module.selection.theta, create_graph=True)
    with pytest.raises(RuntimeError, match="reference"):
        first.sum().backward()


def test_merged_nodes_go_the_way_of_all():
    pytest.importorskip("numba")
    x = torch.rand(10, 2)
    assert path_of(x) == "reference"
    assert path_of(x, copies=torch.full((10,), 50.0)) == "reference"
    assert path_of(x, copies=torch.full((10,), 100.0)) == "cpu"
