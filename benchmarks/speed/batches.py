"""Batches of real graphs: molecules, proteins, social networks; many models at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.speed.counting import scattering_cost
from benchmarks.speed.graphs import STAND_IN, pick
from benchmarks.speed.plan import SETS
from benchmarks.speed.rows import (
    Bench,
    Case,
    Competitor,
    Job,
    Row,
    Skipped,
    measure,
    reference_needs,
)
from benchmarks.speed.timing import gnn_works
from benchmarks.speed.works import CHOICES, paths_of, scattering_works
from legs.data.dataset import GraphBatch
from legs.data.errors import DataError

GROUP = "batches"
FUSED = ("cpu", "cuda")


def jobs(bench: Bench) -> list[Job]:
    """The cases, in order."""
    plan, cases = bench.plan, []
    for name in plan.sets:
        cases.append(Job(f"{name}, {plan.graphs} graphs", partial(_batch, bench, name)))
    first = plan.sets[0] if plan.sets else ""
    if plan.sets and plan.whole:
        cases.append(Job(f"{first}, whole", partial(_batch, bench, first, whole=True)))
    if plan.sets and plan.models > 1:
        title = f"{first}, {plan.graphs} graphs, {plan.models} models"
        cases.append(Job(title, partial(_batch, bench, first, models=plan.models)))
        if plan.whole and bench.device.type == "cuda":
            title = f"{first}, whole, {plan.models} models"
            run = Job(title, partial(_batch, bench, first, whole=True, models=plan.models))
            cases.append(run)
    return cases


def _batch(bench: Bench, name: str, whole: bool = False, models: int = 1) -> Iterator[Row]:
    try:
        data = bench.load(name, None)
    except DataError as missing:
        # Molecules are always to be had where RDKit is; other sets have no such stand-in.
        if name != SETS[0]:
            raise Skipped(str(missing)) from missing
        try:
            data = bench.load(STAND_IN, None if whole else bench.plan.graphs)
        except DataError as error:
            raise Skipped(f"{missing}; nor is {STAND_IN}: {error}") from error
    count = len(data) if whole else bench.plan.graphs
    graphs = pick(data, count, bench.seed).to(bench.device)
    title = f"{data.name}, {graphs.batch_size:,} graphs"
    if models > 1:
        title += f", {models} models"
    yield from compare_on(bench, GROUP, title, graphs, models, others=models == 1)


def compare_on(
    bench: Bench,
    group: str,
    title: str,
    graphs: GraphBatch,
    models: int = 1,
    *,
    others: bool = True,
) -> Iterator[Row]:
    """Train step and inference of scattering and, with ``others``, of GCN and GIN."""
    (nodes, channels), edges = graphs.x.shape, graphs.edge_index.shape[1]
    scattering = {
        choice: scattering_works(graphs, choice, models=models, seed=bench.seed)
        for choice in CHOICES
    }
    paths = paths_of(graphs.x, graphs.batch_size, graphs.edge_index, 4 * channels * models)
    gnns = {k: gnn_works(k, graphs, bench.seed) for k in ("gcn", "gin")} if others else {}
    needs = {"auto": 0, "reference": reference_needs(nodes, channels, models=models)}
    if paths["auto"] not in FUSED:
        needs["auto"] = needs["reference"]
    for work in ("train step", "inference"):
        place = 0 if work == "train step" else 1
        competitors: dict[str, Competitor] = {
            name: Competitor(works[place], paths[name], needs=needs[name])
            for name, works in scattering.items()
        }
        for name, works in gnns.items():
            competitors[name] = Competitor(works[place], "pyg", counted=False)
        case = Case(group, title, work, graphs.batch_size, nodes, edges, channels, models)
        train = work == "train step"
        cost = scattering_cost(
            nodes, edges, graphs.batch_size, channels, models=models, powers=train, train=train
        )
        yield from measure(bench, case, competitors, cost)
