"""How many held-out graphs lie farther from the training graphs than any of those can.

Of N numbers none is farther than √(N − 1) standard deviations from their mean. For every split, the
features of LEGS-FIXED of the other graphs are compared with that bound, which batch norm enforces
in evaluation (:class:`legs.nn.GraphBatchNorm`). ``python -m benchmarks.outliers`` writes
``docs/results/reach``; ``page`` the page alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from benchmarks.provenance import provenance
from benchmarks.results_page import Results, origin, run
from benchmarks.size_and_chemistry import splits_of
from legs.data import load
from legs.data.dataset import GraphDataset
from legs.models import create
from legs.training.inputs import embed

CLASSES = (
    "DD", "ENZYMES", "MUTAG", "NCI1", "NCI109", "PROTEINS", "PTC_MR", "COLLAB", "IMDB-BINARY",
    "IMDB-MULTI", "REDDIT-BINARY",
)  # fmt: skip
NUMBERS = {
    "qm9": "qm9+structure",
    **dict.fromkeys(("zinc-bbab", "zinc-fbab", "zinc-jbab", "ki-p00918", "ki-p14416"), "atoms"),
    **dict.fromkeys(("rna-puzzles", "protein-decoys"), "structure"),
}
RESULTS = Path("docs/results/reach")
WORDS = """\
Of N numbers none is farther than √(N − 1) standard deviations from their mean (Samuelson's
inequality). Graphs that are have nothing like them among the N training graphs. Counted here: how
many validation and test graphs have a feature of fixed scattering beyond that bound, over all
splits, and how far beyond it the farthest is. In evaluation batch norm enforces the bound.
"""


def beyond(data: GraphDataset, seed: int) -> dict[str, Any]:
    """Graphs beyond the bound, over all splits."""
    network = create("legs-fixed", data.in_channels, 2).eval()
    network.initialize(data.x)
    features = embed(network, data).double()
    counts: dict[str, Any] = {"held_out": 0, "beyond": 0, "farthest": 0.0, "graph": -1}
    for split in splits_of(data, seed):
        train = features[torch.as_tensor(split.train)]
        others = torch.cat([torch.as_tensor(split.validation), torch.as_tensor(split.test)])
        away = (features[others] - train.mean(0)) / (train.var(0) + 1e-5).sqrt()
        share = away.abs().amax(1) / (len(train) - 1) ** 0.5
        counts["held_out"] += len(others)
        counts["beyond"] += int((share > 1).sum())
        if float(share.max()) > counts["farthest"]:
            counts["farthest"] = float(share.max())
            counts["graph"] = int(others[share.argmax()])
            counts["deviations"] = float(away.abs().max())
    return counts


def measure(options: argparse.Namespace, file: Path) -> Results:
    """All sets."""
    rows = []
    for name in options.datasets:
        data = load(name, features=NUMBERS.get(name, "structure"))
        counts = beyond(data, options.seed)
        rows.append({"data": name, **counts, "nodes": int(data.sizes[counts["graph"]])})
        print(rows[-1], flush=True)
    return {**provenance("cpu"), "seed": options.seed, "rows": rows}


def page(results: Results) -> str:
    """The page about results."""
    lines = [
        "| data | held out | beyond | farthest, in deviations | over the bound |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['data']} | {row['held_out']:,} | {row['beyond']} | {row['deviations']:,.0f} | "
        f"{row['farthest']:.2f} × |"
        for row in results["rows"]
    ]
    table = "\n".join(lines)
    end = origin(results, "benchmarks.outliers")
    return f"# Graphs unlike all training graphs\n\n{WORDS}\n{table}\n\n{end}"


if __name__ == "__main__":
    run(__doc__, RESULTS, [*CLASSES, *NUMBERS], measure, page)
