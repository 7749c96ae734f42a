"""How much faster message-passing networks train here than by PyG's layers, on the CPU.

``python -m benchmarks.message_passing`` writes ``docs/results/message-passing``; ``page`` the page
alone. Times are ratios in one run, of one training step (forward and backward) on the same 128
graphs, by one thread; both ways take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.results_page import Known, origin, run
from benchmarks.timing import compare
from legs.data import GraphDataset, load
from legs.experiments.provenance import provenance
from legs.kernels import use
from legs.models import create
from legs.training.inputs import Inputs
from legs.training.trust import trust_graphs

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "message-passing"
SETS = ("MUTAG", "NCI1", "PROTEINS", "DD", "IMDB-BINARY", "REDDIT-BINARY", "COLLAB")
NETWORKS = ("gcn", "graphsage", "gin", "gat", "snowball")
GRAPHS, ROUNDS = 128, 7
WORDS = """\
GCN, GraphSAGE, GIN, GAT and the snowball network have PyG's modules and parameters here. Training
computes the same numbers (but for rounding) in another way: a node reads its neighbours' states and
writes their sum, where PyG writes a message an edge (`legs.kernels.messages`); and nodes that no
network can tell apart are computed once ([nodes that are alike](../alike/results.md)). Graphs must
be undirected; others, and those of one's own training loops, go through PyG's layers. PyG is
without pyg-lib, torch-scatter and torch-sparse here.

How many times as fast a training step is, on a batch of {graphs} graphs, one thread:
"""


def speed(data: GraphDataset, name: str, seed: int) -> float:
    """How many times as fast a training step is as PyG's."""
    torch.manual_seed(seed)
    network = create(name, data.in_channels, data.out_channels)
    found = compare({way: _step(data, network, way) for way in ("reference", "auto")}, ROUNDS)
    return found["reference"] / found["auto"]


def _step(data: GraphDataset, network: torch.nn.Module, way: str) -> Callable[[], None]:
    with use(way):
        reader = Inputs(data, network, torch.device("cpu"))
    index, parameters = torch.arange(len(data)), list(network.parameters())

    def step() -> None:
        with use(way):
            trust_graphs(network, reader)
            out = reader(network, index)
            torch.autograd.grad(out.square().sum(), parameters)

    return step


def measure(datasets: list[str], seed: int, file: Path) -> Known:
    """Ratios for every network on some sets."""
    torch.set_num_threads(1)
    rows = []
    for name in datasets:
        data = load(name, features="structure")
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
        data = data.subset(order[:GRAPHS])
        nodes, edges = data.num_nodes, len(data.col)
        times = {network: speed(data, network, seed) for network in NETWORKS}
        rows.append({"data": name, "nodes": nodes, "edges": edges, "times": times})
        print(rows[-1], flush=True)
    return {**provenance("cpu"), "threads": 1, "seed": seed, "rows": rows}


def page(known: Known) -> str:
    """The page about results."""
    lines = [f"| set | nodes | edges | {' | '.join(NETWORKS)} |"]
    lines.append("|---" * (3 + len(NETWORKS)) + "|")
    for row in known["rows"]:
        cells = [f"{row['times'][name]:.1f} ×" for name in NETWORKS]
        lines.append(
            f"| {row['data']} | {row['nodes']:,} | {row['edges']:,} | {' | '.join(cells)} |"
        )
    text = f"# Message passing on the CPU\n\n{WORDS.format(graphs=GRAPHS)}\n" + "\n".join(lines)
    return text + f"\n\n{origin(known, 'benchmarks.message_passing')}"


if __name__ == "__main__":
    run(__doc__, RESULTS, SETS, measure, page)
