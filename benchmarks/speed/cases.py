"""The cases: batches of real graphs, one large graph, and sizes that grow one at a time."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import torch

from benchmarks.provenance import processor, provenance
from benchmarks.speed.counting import diffusion_cost, scattering_cost
from benchmarks.speed.graphs import (
    GRAPH_NODES,
    lattice,
    load_local,
    pick,
    random_graph,
    random_graphs,
)
from benchmarks.speed.methods import (
    diffusion_steps,
    fused_path,
    gnn_works,
    product_path,
    scattering_works,
)
from benchmarks.speed.rows import (
    GROUPS,
    Bench,
    Competitor,
    Limits,
    Plan,
    Row,
    copying,
    measure,
)
from benchmarks.speed.timing import Run, peak_of
from legs import functional as fn
from legs.data.dataset import GraphBatch, GraphDataset
from legs.data.errors import DataError
from legs.kernels.csr import accelerated
from legs.kernels.op import Backend

# What scattering takes by itself, and the reference.
CHOICES: tuple[Backend, ...] = ("auto", "reference")
GNNS: tuple[Literal["gcn", "gin"], ...] = ("gcn", "gin")
CPU = torch.device("cpu")
FUSED = ("cpu", "cuda")  # paths
# The paper's two node features; a whole step with 16 channels would need memory for 64 signals.
STEP_CHANNELS = 2

Job = tuple[str, Callable[[], list[Row]]]  # the name of a case, and what measures it


def batch_jobs(bench: Bench) -> Iterator[Job]:
    """Batches of real graphs: molecules, proteins, social networks; many models at once."""
    plan = bench.plan
    for name in plan.sets:
        yield f"{name}, {plan.graphs} graphs", partial(_batch, bench, name)
    first = plan.sets[0]
    yield f"{first}, whole", partial(_batch, bench, first, whole=True)
    many = partial(_batch, bench, first, models=plan.models)
    yield f"{first}, {plan.graphs} graphs, {plan.models} models", many
    if bench.device.type == "cuda":
        yield f"{first}, whole, {plan.models} models", partial(many, whole=True)


def _batch(bench: Bench, name: str, whole: bool = False, models: int = 1) -> list[Row]:
    data = bench.load(name)
    count = len(data) if whole else bench.plan.graphs
    graphs = data.batch(pick(data, count, bench.seed)).to(bench.device)
    title = f"{data.name}, {graphs.batch_size:,} graphs"
    title += f", {models} models" if models > 1 else ""
    return _steps(bench, "batches", title, graphs, models)


def _steps(bench: Bench, group: str, title: str, graphs: GraphBatch, models: int = 1) -> list[Row]:
    """Train step and inference of scattering and, beside one model, of GCN and GIN."""
    (nodes, channels), edges = graphs.x.shape, graphs.edge_index.shape[1]
    path = fused_path(graphs.x, graphs.batch_size, graphs.edge_index, 4 * channels * models)
    paths = {"auto": path, "reference": "reference"}
    scattering = {k: scattering_works(graphs, k, models=models, seed=bench.seed) for k in CHOICES}
    gnns = {k: gnn_works(k, graphs, bench.seed) for k in GNNS} if models == 1 else {}
    rows = []
    for work, train in (("train step", True), ("inference", False)):
        competitors = {}
        for name, works in scattering.items():
            competitors[str(name)] = Competitor(works[not train], paths[name])
        for kind, works in gnns.items():
            competitors[kind] = Competitor(works[not train], "pyg", counted=False)
        case = Row(group, title, work, graphs.batch_size, nodes, edges, channels, models)
        sizes = (nodes, edges, graphs.batch_size, channels)
        cost = scattering_cost(*sizes, models=models, powers=train, train=train)
        rows += measure(bench, case, competitors, cost)
    return rows


def single_jobs(bench: Bench) -> Iterator[Job]:
    """One large graph: diffusion against the bandwidth of memory, and whole steps."""
    for edges in bench.plan.edges:
        for kind in ("random", "lattice"):
            yield f"{kind}, {edges:,} edges, diffusion", partial(_diffusion, bench, kind, edges)
    for edges in bench.plan.edges:
        if edges <= bench.plan.whole_step_up_to:
            yield f"lattice, {edges:,} edges, whole step", partial(_whole_step, bench, edges)


def _diffusion(bench: Bench, kind: str, edges: int) -> list[Row]:
    channels, steps = bench.plan.channels, bench.plan.steps
    make = random_graph if kind == "random" else lattice
    x, edge_index, *_ = make(edges, channels, bench.seed).to(bench.device)
    walk = fn.random_walk(edge_index, None, len(x), x.dtype)
    case = Row("single", f"{kind}, {edges:,} edges", "diffusion", 1, len(x), edges, channels)
    fast = partial(diffusion_steps, x, accelerated(walk), steps)
    competitors = {
        "auto": Competitor(fast, product_path(walk, x)),
        "reference": Competitor(partial(diffusion_steps, x, walk, steps), "reference"),
    }
    cost = diffusion_cost(len(x), edges, channels, steps, x.element_size())
    # Against a copy alone: diffusion has nothing to compute that takes as long as its bytes.
    return measure(bench, case, competitors, cost, copying(bench.device, bench.plan))


def _whole_step(bench: Bench, edges: int) -> list[Row]:
    graph = lattice(edges, STEP_CHANNELS, bench.seed).to(bench.device)
    return _steps(bench, "single", f"lattice, {edges:,} edges", graph)


@dataclass(frozen=True)
class Size:
    """Of a train step; by default about that of 128 molecules."""

    nodes: int = 4096
    edges: int = 16384
    channels: int = 2
    scales: int = 5
    steps: int = 16
    models: int = 1


def sizes(series: str, values: tuple[int, ...], nodes: int = Size.nodes) -> list[Size]:
    """The sizes of a series; edges stay where nodes grow, in graphs of 32 nodes each.

    Where nodes do not grow, each has four neighbours.

    >>> [(size.nodes, size.edges) for size in sizes("nodes", (4096, 16384))]
    [(4096, 32768), (16384, 32768)]
    """
    base = Size(nodes, 4 * nodes)
    if series == "nodes":
        # Two neighbours at least, for the largest of them.
        base = replace(base, edges=max(base.edges, 2 * max(values)))
    return [replace(base, **{series: value}) for value in values]


def growth_jobs(bench: Bench) -> Iterator[Job]:
    """Time and peak memory of a train step as one size grows and the others stay."""
    measured: dict[Size, list[Row]] = {}  # series meet in their common size

    def rows(size: Size, case: str) -> list[Row]:
        if size not in measured:
            measured[size] = _train_step(bench, size)
        return [replace(row, case=case) for row in measured[size]]

    for series, values in bench.plan.series.items():
        for value, size in zip(values, sizes(series, values, bench.plan.nodes), strict=True):
            case = f"{series} = {value:,}"
            yield case, partial(rows, size, case)


def _train_step(bench: Bench, size: Size) -> list[Row]:
    graphs = random_graphs(size.nodes, size.edges, size.channels, bench.seed).to(bench.device)
    lanes = size.models * size.channels * (size.scales - 1)
    path = fused_path(graphs.x, graphs.batch_size, graphs.edge_index, lanes)
    paths = {"auto": path, "reference": "reference"}
    competitors = {}
    for choice in CHOICES:
        run = _train(size, choice, bench.seed, bench.device)
        memory = peak_of(prepare, size, choice, bench.seed) if bench.device.type == "cpu" else None
        competitors[str(choice)] = Competitor(run, paths[choice], memory=memory)
    counts = (size.nodes, size.edges)
    case = Row("growth", "", "train step", graphs.batch_size, *counts, size.channels, size.models)
    options = {"scales": size.scales, "steps": size.steps, "models": size.models}
    cost = scattering_cost(*counts, graphs.batch_size, size.channels, **options)
    return measure(bench, case, competitors, cost)


def prepare(size: Size, choice: Backend, seed: int) -> tuple[Run, Run]:
    """A step on few nodes, which loads all that is loaded once, and the step itself."""
    small = replace(size, nodes=GRAPH_NODES, edges=2 * GRAPH_NODES)
    # By itself, scattering would take the reference for so few.
    path = fused_path(torch.empty(size.nodes, size.channels), size.nodes // GRAPH_NODES)
    loaded: Backend = "fused" if choice == "auto" and path in FUSED else "reference"
    return _train(small, loaded, seed), _train(size, choice, seed)


def _train(size: Size, choice: Backend, seed: int, device: torch.device = CPU) -> Run:
    graphs = random_graphs(size.nodes, size.edges, size.channels, seed).to(device)
    options = {"scales": size.scales, "steps": size.steps, "models": size.models}
    return scattering_works(graphs, choice, **options, seed=seed).train


JOBS = {"batches": batch_jobs, "single": single_jobs, "growth": growth_jobs}


@dataclass
class Result:
    """What was measured so far."""

    machine: dict[str, Any]  # its name, versions, date
    plan: Plan
    limits: Limits  # of the machine, measured in this run
    seed: int  # of graphs, signals and gradients
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # lines about what was left out
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return asdict(self) | self.machine


def run(
    plan: Plan,
    device: str = "cpu",
    groups: Sequence[str] = GROUPS,
    seed: int = 0,
    load: Callable[[str], GraphDataset] = load_local,
) -> Iterator[Result]:
    """Measures speed, and peak memory, by a plan; yields the result so far after each case.

    Data sets that ``load`` cannot find are skipped.
    """
    place, start = torch.device(device), time.monotonic()
    result = Result(describe(place), plan, Limits.of(place, plan), seed)
    bench = Bench(plan, place, result.limits, load, seed)
    jobs = [job for group in groups for job in JOBS[group](bench)]
    for number, (name, measured) in enumerate(jobs):
        print(f"{number}/{len(jobs)} {name}", flush=True)
        try:
            result.rows += measured()
        except DataError as error:
            result.skipped.append(f"{name}: {error}")
            print(f"left out: {error}")
        gc.collect()
        if place.type == "cuda":
            torch.cuda.empty_cache()
        result.seconds = time.monotonic() - start
        yield result


def describe(device: torch.device) -> dict[str, Any]:
    """Machine, versions, date and commit, as JSON values."""
    gpu = device.type == "cuda"
    facts = provenance(str(device)) | {
        "device": device.type,
        "machine": torch.cuda.get_device_name(device) if gpu else processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if gpu:
        facts["versions"]["cuda"] = torch.version.cuda
    return facts
