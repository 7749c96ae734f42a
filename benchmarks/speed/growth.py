"""Time and peak memory of a train step as one size grows and the others stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch

from benchmarks.speed.batches import FUSED
from benchmarks.speed.counting import scattering_cost
from benchmarks.speed.graphs import GRAPH_NODES, many_graphs
from benchmarks.speed.memory import peak_of
from benchmarks.speed.rows import Bench, Case, Competitor, Job, Row, measure, reference_needs
from benchmarks.speed.timing import Run
from benchmarks.speed.works import CHOICES, paths_of, scattering_works
from legs.kernels.op import Backend

GROUP = "growth"


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
    if series not in asdict(Size()):
        raise ValueError(f"nothing called {series} grows; there are {', '.join(asdict(Size()))}")
    base = Size(nodes, 4 * nodes)
    if series == "nodes":
        # Two neighbours at least, for the largest of them.
        base = replace(base, edges=max(base.edges, 2 * max(values)))
    return [replace(base, **{series: value}) for value in values]


def jobs(bench: Bench) -> list[Job]:
    """The cases, in order: one per size."""
    measured: dict[Size, list[Row]] = {}  # series meet in their common size
    return [
        Job(f"{series} = {getattr(size, series):,}", partial(_point, bench, series, size, measured))
        for series, values in bench.plan.series.items()
        for size in sizes(series, values, bench.plan.nodes)
    ]


def _point(bench: Bench, series: str, size: Size, measured: dict[Size, list[Row]]) -> Iterator[Row]:
    if size not in measured:
        measured[size] = _measured(bench, size)
    case = f"{series} = {getattr(size, series):,}"
    yield from (replace(row, case=case) for row in measured[size])


def _measured(bench: Bench, size: Size) -> list[Row]:
    graphs = many_graphs(size.nodes, size.edges, size.channels, bench.seed).to(bench.device)
    lanes = size.models * size.channels * (size.scales - 1)
    paths = paths_of(graphs.x, graphs.batch_size, graphs.edge_index, lanes)
    needs = reference_needs(size.nodes, size.channels, size.scales, size.steps, size.models)
    competitors: dict[str, Competitor] = {}
    for choice in CHOICES:
        run = _train(size, choice, bench.seed, bench.device.type)
        memory = peak_of(prepare, size, choice, bench.seed) if bench.device.type == "cpu" else None
        large = 0 if paths[choice] in FUSED else needs
        competitors[choice] = Competitor(run, paths[choice], memory=memory, needs=large)
    case = Case(
        GROUP,
        "",
        "train step",
        graphs.batch_size,
        size.nodes,
        size.edges,
        size.channels,
        size.models,
    )
    cost = scattering_cost(
        size.nodes,
        size.edges,
        graphs.batch_size,
        size.channels,
        scales=size.scales,
        steps=size.steps,
        models=size.models,
    )
    return measure(bench, case, competitors, cost)


def prepare(size: Size, choice: Backend, seed: int) -> tuple[Run, Run]:
    """A step on few nodes, which loads all that is loaded once, and the step itself."""
    small = replace(size, nodes=GRAPH_NODES, edges=2 * GRAPH_NODES)
    # By itself, scattering would take the reference for so few.
    path = paths_of(torch.empty(size.nodes, size.channels), size.nodes // GRAPH_NODES)[choice]
    loaded: Backend = "reference" if path == "reference" else "fused"
    return _train(small, loaded, seed), _train(size, choice, seed)


def _train(size: Size, choice: Backend, seed: int, device: str = "cpu") -> Run:
    graphs = many_graphs(size.nodes, size.edges, size.channels, seed).to(torch.device(device))
    return scattering_works(
        graphs, choice, scales=size.scales, steps=size.steps, models=size.models, seed=seed
    ).train
