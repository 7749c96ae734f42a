"""How many nodes of real graphs are alike, and how much faster scattering is on merged ones.

``python -m benchmarks.alike`` writes ``docs/results/alike``; ``page`` the page alone. Sizes are
exact and the same everywhere. Times are ratios in one run, of one training step (forward and
backward) on the same 256 graphs with walk powers at hand, as in training.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from legs.data import GraphDataset, load, merge_alike
from legs.experiments.provenance import provenance
from legs.experiments.settings import SETS
from legs.models import LEGSNet, create
from legs.training import inputs
from legs.training.inputs import Inputs

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "alike"
GRAPHS, REPEATS = 256, 7
WORDS = """\
Nodes of a graph are *alike* if they have the same features and equally many neighbours of every
kind (`legs.data.merge_alike`). No network here can tell them apart, so that one may stand for all
of them: nothing is lost but rounding. Node features are the paper's: eccentricity and clustering
coefficient. Training merges nodes where at least {least} times fewer nodes and edges are left.
"""


def sizes(name: str) -> dict[str, Any]:
    """Nodes and edges of a set, before and after."""
    data = load(name, features="structure")
    merged, _ = merge_alike(data)
    return {
        "data": name,
        "nodes": data.num_nodes,
        "edges": len(data.col),
        "merged_nodes": merged.num_nodes,
        "merged_edges": len(merged.col),
    }


def speed(name: str, device: str) -> float:
    """How many times as fast a training step of LEGS is on merged graphs."""
    data = load(name, features="structure")
    data = data.subset(
        torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:GRAPHS]
    )
    network = create("legs-fcn", data.in_channels, data.out_channels).to(device)
    assert isinstance(network, LEGSNet)
    steps = [_step(data, network, device, merged) for merged in (False, True)]
    times: list[list[float]] = [[], []]
    for _ in range(REPEATS):  # by turns: what else the machine does disturbs both
        for step, found in zip(steps, times, strict=True):
            start = time.perf_counter()
            step()
            found.append(time.perf_counter() - start)
    plain, merged = map(median, times)
    return plain / merged


def _step(data: GraphDataset, network: LEGSNet, device: str, merged: bool) -> Any:
    inputs.MERGED_FROM = 1.0 if merged else float("inf")
    reader = Inputs(data, network, torch.device(device))
    graphs, known = reader.batch(torch.arange(len(data), device=device))
    parameters = list(network.scattering.parameters())

    def step() -> None:
        out = network.embed(*graphs[:5], **known)
        torch.autograd.grad(out.square().sum(), parameters)
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(2):
        step()
    return step


def page(known: dict[str, Any]) -> str:
    """The page about results."""
    lines = ["| set | nodes | merged | | edges | merged | | a step |", "|---" * 8 + "|"]
    for row in known["rows"]:
        nodes, edges = (row[k] / row[f"merged_{k}"] for k in ("nodes", "edges"))
        lines.append(
            f"| {row['data']} | {row['nodes']:,} | {row['merged_nodes']:,} | {nodes:.2f} × | "
            f"{row['edges']:,} | {row['merged_edges']:,} | {edges:.2f} × | {row['speed']:.2f} × |"
        )
    about = f"{known['device']}, {known['machine']}; {known['date'][:10]}; commit {known['commit']}"
    versions = ", ".join(f"{name} {number}" for name, number in known["versions"].items())
    text = f"# Nodes that are alike\n\n{WORDS.format(least=inputs.MERGED_FROM)}\n"
    text += "Last column: how many times as fast a training step of LEGS-FCN is on "
    text += f"{GRAPHS} merged graphs.\n\n"
    text += (
        "\n".join(lines) + f"\n\n{about}; {versions}. Again with `python -m benchmarks.alike`.\n"
    )
    return text


def main() -> None:
    """Measures, and writes results and page; or the page alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "page"), default="run")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--datasets", nargs="+", default=list(SETS))
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    file, least = given.output / "results.json", inputs.MERGED_FROM
    if given.what == "run":
        rows = []
        for name in given.datasets:
            rows.append(sizes(name) | {"speed": speed(name, given.device)})
            print(rows[-1], flush=True)
        known = {**provenance(given.device), "threads": torch.get_num_threads(), "rows": rows}
        file.write_text(json.dumps(known, indent=1) + "\n")
        inputs.MERGED_FROM = least
    (given.output / "results.md").write_text(page(json.loads(file.read_text())))


if __name__ == "__main__":
    main()
