"""The parts of the benchmark of speed: counts, graphs, competitors, clocks."""

from __future__ import annotations

import json
import time
from importlib.util import find_spec

import pytest
import torch

from benchmarks.speed import Plan
from benchmarks.speed import graphs as made
from benchmarks.speed.cases import Size, describe, prepare, sizes
from benchmarks.speed.counting import Cost, diffusion_cost, scattering_cost
from benchmarks.speed.methods import (
    diffusion_steps,
    fused_path,
    gnn_works,
    product_path,
    scattering_works,
)
from benchmarks.speed.rows import Bench, Competitor, Limits, Row, measure
from benchmarks.speed.timing import compare, measurable, peak_of, record
from legs.functional import random_walk
from tests.benchmarks.tiny import CPU, TINY, small


def test_diffusion_is_counted():
    # 7 nodes, 20 entries, 3 channels of 4 bytes: 20 gathered rows of 12 bytes, 20 columns and 8 row
    # pointers of 4, 7 written rows of 12.
    assert diffusion_cost(7, 20, 3).bytes == 240 + 112 + 84
    assert diffusion_cost(7, 20, 3, steps=16, size=8).bytes == 16 * (480 + 112 + 168)
    assert diffusion_cost(7, 20, 3).operations == (40 + 21) * 3


def test_scattering_is_counted():
    # 10 nodes, 30 entries, 2 graphs, 1 channel, 3 scales (3 pairs, 7 paths), 4 steps.
    sizes = {"scales": 3, "steps": 4}
    forward = scattering_cost(10, 30, 2, 1, **sizes, powers=False, train=False)
    powers = 4 * (60 + 10)
    first, second, walking, moments = 2 * 3 * 4 * 10, 2 * 3 * 4 * 10, 4 * 70 * 2, 10 * 7 * 10
    assert forward.operations == powers + first + second + walking + moments
    read, out = 10 * 4 + 4 * (30 + 11), 2 * 7 * 4 * 4
    assert forward.bytes == read + out
    train = scattering_cost(10, 30, 2, 1, **sizes)
    assert train.operations == 2 * (first + walking + moments) + 3 * second
    assert train.bytes == 2 * (read + 10 * 4 * 4 + out)
    many = scattering_cost(10, 30, 2, 1, **sizes, models=5)
    assert many.operations == 5 * train.operations
    assert many.bytes == 2 * (read + 10 * 4 * 4 + 5 * out)


def entries(edge_index):
    return sorted(map(tuple, edge_index.T.tolist()))


@pytest.mark.parametrize("make", [made.random_graph, made.lattice])
def test_made_graphs_are_regular_and_undirected(make):
    edge_index = make(2000, 1).edge_index
    assert edge_index.shape == (2, 2000)
    assert entries(edge_index) == entries(edge_index.flip(0))
    assert edge_index[1].bincount().tolist() == [10] * 200
    assert edge_index[0].bincount(minlength=200).tolist() == [10] * 200


def test_a_lattice_is_local():
    edge_index = made.lattice(10**5, 1).edge_index  # 100 × 100
    distance = (edge_index[0] - edge_index[1]).abs()
    assert (distance <= 101).float().mean() > 0.95
    distance = made.random_graph(10**5, 1).edge_index.diff(dim=0).abs()
    assert (distance <= 101).float().mean() < 0.1


def test_random_graphs():
    graphs = made.random_graphs(96, 96 * 6, channels=5)
    assert graphs.batch_size == 3
    assert graphs.x.shape == (96, 5)
    assert torch.equal(*graphs.batch[graphs.edge_index])
    assert entries(graphs.edge_index) == entries(graphs.edge_index.flip(0))
    assert graphs.edge_index[1].bincount().tolist() == [6] * 96
    with pytest.raises(ValueError, match="multiple of 32"):
        made.random_graphs(100, 400, 1)


def test_series():
    plan = Plan()
    for series, values in plan.series.items():
        for size in sizes(series, values, plan.nodes):
            made.random_graphs(size.nodes, size.edges, 1)
            assert size.scales <= size.steps


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_scattering_works(backend):
    works = scattering_works(made.random_graphs(64, 256, 2), backend)
    assert not works.inference().requires_grad
    assert works.train()[0].abs().max() > 0


def test_many_models():
    graphs = made.random_graphs(64, 256, 2)
    works = scattering_works(graphs, "reference", models=3)
    alone = scattering_works(graphs, "reference")
    assert works.inference().shape == (3, *alone.inference().shape)
    (gradient,) = works.train()
    assert gradient.shape == (3, *alone.train()[0].shape)
    assert not torch.equal(gradient[0], gradient[1])


@pytest.mark.parametrize("kind", ["gcn", "gin"])
def test_others(kind):
    graphs = made.random_graphs(64, 256, 2)
    works = gnn_works(kind, graphs)
    assert works.inference().shape == (2, 64)
    gradients = works.train()
    assert all(g.abs().max() > 0 for g in gradients)
    assert len(gradients) == (6 if kind == "gcn" else 12)


def test_steps_of_diffusion():
    edge_index = made.random_graph(200, 1).edge_index
    walk = random_walk(edge_index, None, 20)
    adjacency = torch.zeros(20, 20, dtype=torch.double)
    adjacency.index_put_(tuple(edge_index.flip(0)), torch.ones(200).double(), accumulate=True)
    lazy = torch.eye(20) / 2 + adjacency / 20
    x = torch.rand(20, 3)
    expected = torch.linalg.matrix_power(lazy.double(), 4) @ x.double()
    state = diffusion_steps(x, walk, 4).double()
    torch.testing.assert_close(state, expected, rtol=1e-4, atol=1e-5)


def test_paths_of_large_graphs(monkeypatch):
    edge_index = made.random_graph(10**5, 1).edge_index
    walk, x = random_walk(edge_index, None, 10**4), torch.ones(10**4, 16)
    fast = "cpu csr" if find_spec("numba") else "reference"
    assert product_path(walk, x) == fast
    assert product_path(walk, x.half()) == "reference"
    monkeypatch.setattr("benchmarks.speed.methods.use_fused", lambda *given, **more: False)
    assert fused_path(x, 1, edge_index, lanes=64) == fast
    assert fused_path(x, 1) == "reference"


def test_times_are_compared():
    timings = compare(
        {"short": lambda: time.sleep(0.001), "long": lambda: time.sleep(0.01)}, rounds=3, least=1
    )
    assert 0.001 <= timings["short"].seconds < timings["long"].seconds
    assert timings["long"].first >= 0.01
    assert timings["long"].memory is None


def test_slow_runs_are_timed_once():
    count = {"slow": 0, "fast": 0}

    def step(name, seconds):
        count[name] += 1
        time.sleep(seconds)

    runs = {"slow": lambda: step("slow", 0.02), "fast": lambda: step("fast", 0.005)}
    compare(runs, rounds=3, least=3, seconds=0.004)
    assert count == {"slow": 2, "fast": 5}


def test_memory_that_runs_out():
    def fail():
        raise MemoryError

    timings = compare({"big": fail, "small": lambda: None}, rounds=1)
    assert timings["big"].seconds is None
    assert timings["big"].failed == "out of memory"
    assert timings["small"].seconds > 0

    def wrong():
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        compare({"wrong": wrong})


def test_a_copy_in_turn_is_the_limit():
    bench = Bench(TINY, CPU, Limits(1.0, 1.0), small)
    case = Row("single", "graph", "diffusion", 1, 2, 3, 4)
    copy = (lambda: time.sleep(0.02), 1000)
    (row,) = measure(
        bench, case, {"auto": Competitor(lambda: time.sleep(0.01), "cpu")}, Cost(250, 10**9), copy
    )
    # A quarter of the bytes in half of the time.
    assert row.share == pytest.approx(0.5, rel=0.3)


@pytest.mark.skipif(not measurable(), reason="needs Linux")
def test_peak_memory_in_a_fresh_process():
    small, large = (
        peak_of(prepare, Size(nodes=n, edges=2 * n), "reference", 0) for n in (4096, 32768)
    )
    # All states of the second order: nodes × 8 lanes × 16 steps × 4 bytes, at least once.
    assert large > 32768 * 8 * 16 * 4
    assert 4 < large / small < 16


def test_nothing_is_recorded_without_a_gpu():
    assert record(lambda: None, CPU) is None


def test_limits_and_machine():
    limits = Limits.of(CPU, TINY)
    assert limits.copy > 1e6
    assert limits.multiply > 1e6
    facts = describe(CPU)
    assert facts["machine"]
    assert facts["versions"]["torch"] == torch.__version__
    json.dumps(facts)
