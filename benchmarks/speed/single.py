"""One large graph: diffusion against the bandwidth of memory, and whole steps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from benchmarks.speed.batches import compare_on
from benchmarks.speed.counting import diffusion_cost
from benchmarks.speed.graphs import as_batch, lattice, random_graph
from benchmarks.speed.machine import copying
from benchmarks.speed.rows import Bench, Case, Competitor, Job, Row, measure
from benchmarks.speed.works import diffusion_steps, product_path
from legs import functional as fn
from legs.kernels.csr import accelerated

GROUP = "single"
LAZINESS = 0.5
# The paper's two node features; a whole step with 16 channels would need memory for 64 signals.
STEP_CHANNELS = 2


def jobs(bench: Bench) -> list[Job]:
    """The cases, in order."""
    plan = bench.plan
    diffusions = [
        Job(f"{kind}, {edges:,} edges, diffusion", partial(_diffusion, bench, kind, edges))
        for edges in plan.edges
        for kind in ("random", "lattice")
    ]
    return diffusions + [
        Job(f"lattice, {edges:,} edges, whole step", partial(_step, bench, edges))
        for edges in plan.edges
        if edges <= plan.whole_step_up_to
    ]


def _made(bench: Bench, kind: str, edges: int) -> Tensor:
    return random_graph(edges, bench.seed) if kind == "random" else lattice(edges)


def _diffusion(bench: Bench, kind: str, edges: int) -> Iterator[Row]:
    channels, steps = bench.plan.channels, bench.plan.steps
    graph = as_batch(_made(bench, kind, edges), channels, bench.seed).to(bench.device)
    nodes, entries = graph.x.shape[0], graph.edge_index.shape[1]
    walk = fn.random_walk(graph.edge_index, None, nodes, graph.x.dtype)
    x = graph.x
    del graph
    cost = diffusion_cost(nodes, entries, channels, steps, x.element_size())
    case = Case(GROUP, f"{kind}, {entries:,} edges", "diffusion", 1, nodes, entries, channels)
    competitors = {
        "auto": Competitor(
            partial(diffusion_steps, x, accelerated(walk), LAZINESS, steps), product_path(walk, x)
        ),
        "reference": Competitor(partial(diffusion_steps, x, walk, LAZINESS, steps), "reference"),
    }
    # Against a copy alone: diffusion has nothing to compute that takes as long as its bytes.
    yield from measure(bench, case, competitors, cost, copying(bench.device, bench.plan))


def _step(bench: Bench, edges: int) -> Iterator[Row]:
    graph = as_batch(lattice(edges), STEP_CHANNELS, bench.seed).to(bench.device)
    title = f"lattice, {graph.edge_index.shape[1]:,} edges"
    yield from compare_on(bench, GROUP, title, graph)
