"""How many nodes of real graphs are equivalent, and how much faster scattering is on merged ones.

Merged nodes come in an order that suits loops; what the order alone brings is measured, too.

``python -m benchmarks.equivalent_nodes`` writes ``docs/results/alike``; ``--page`` the page
alone. Times are ratios in one run, of one training step (forward and backward) on the same 256
graphs with precomputed walk powers, as in training.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.provenance import provenance
from benchmarks.results_page import Results, Study, origin, run
from legs.data import GraphDataset, load, merge_equivalent
from legs.data.merge import longest_first
from legs.models import LEGSNet, create
from legs.training.inputs import MERGED_FROM, walk_powers
from reproduction.plan import experiment

GRAPHS, REPEATS = 256, 7
WORDS = """\
Nodes of a graph are *equivalent* if they have the same features and equally many neighbours of
every class (`legs.data.merge_equivalent`). No network here can distinguish them, so one may stand
for all of them: nothing is lost but rounding. Node features are the paper's: eccentricity and
clustering coefficient. Training merges nodes where at least {least} times fewer nodes and edges are
left; else it only puts nodes with most neighbours first in their graph.
"""


def sizes(name: str) -> dict[str, Any]:
    """Nodes and edges of a set, before and after."""
    data = load(name, features="structure")
    merged, _ = merge_equivalent(data)
    return {
        "data": name,
        "nodes": data.num_nodes,
        "edges": len(data.col),
        "merged_nodes": merged.num_nodes,
        "merged_edges": len(merged.col),
    }


def speed(name: str, device: str) -> dict[str, float]:
    """How many times as fast a training step of LEGS is with nodes sorted, and merged."""
    data = load(name, features="structure")
    data = data.subset(
        torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:GRAPHS]
    )
    network = create("legs-fcn", data.in_channels, data.out_channels).to(device)
    assert isinstance(network, LEGSNet)
    network.scattering.validate = False  # as in training
    inputs: list[tuple[GraphDataset, Tensor | None]] = [(data, None), (longest_first(data), None)]
    steps = [_step(*each, network, device) for each in [*inputs, merge_equivalent(data)]]
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(REPEATS):  # interleaved: other load on the machine affects all
        for step, seconds in zip(steps, times, strict=True):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
    plain, ordered, merged = map(median, times)
    return {"sorted": plain / ordered, "merged": plain / merged}


def _step(data: GraphDataset, multiplicity: Tensor | None, network: LEGSNet, device: str) -> Any:
    graphs, steps = data.to(device).whole(), network.power_steps
    multiplicity = None if multiplicity is None else multiplicity.to(device)
    assert steps is not None
    powers = walk_powers(data.to(device), steps, multiplicity).unflatten(
        1, (steps, data.in_channels)
    )
    parameters = list(network.scattering.parameters())

    def step() -> None:
        out = network.embed(*graphs[:5], powers=powers, multiplicity=multiplicity)
        torch.autograd.grad(out.square().sum(), parameters)
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(2):
        step()
    return step


def page(results: Results) -> str:
    """The page about results."""
    lines = ["| set | nodes | merged | | edges | merged | | step, sorted | step, merged |"]
    lines.append("|---" * 9 + "|")
    for row in results["rows"]:
        nodes, edges = (row[k] / row[f"merged_{k}"] for k in ("nodes", "edges"))
        lines.append(
            f"| {row['data']} | {row['nodes']:,} | {row['merged_nodes']:,} | {nodes:.2f} × | "
            f"{row['edges']:,} | {row['merged_edges']:,} | {edges:.2f} × | "
            f"{row['speed']['sorted']:.2f} × | {row['speed']['merged']:.2f} × |"
        )
    text = f"# Equivalent nodes\n\n{WORDS.format(least=MERGED_FROM)}\n"
    text += "Last columns: how many times as fast a training step of LEGS-FCN is on "
    text += f"{GRAPHS} graphs, {results['threads']} thread.\n\n"
    return text + "\n".join(lines) + "\n\n" + origin(results, "benchmarks.equivalent_nodes")


def measure(options: argparse.Namespace, file: Path) -> Results:
    """All sets."""
    rows = []
    for name in options.datasets:
        rows.append(sizes(name) | {"speed": speed(name, options.device)})
        print(rows[-1], flush=True)
    return {**provenance(options.device), "threads": torch.get_num_threads(), "rows": rows}


if __name__ == "__main__":
    run(__doc__, {"alike": Study(experiment("classification")["datasets"], measure, page)})
