"""Filter banks and training steps of deep networks on a GPU, recorded as CUDA graphs.

    python -m benchmarks.deep [--packed FILE ...] [--device cuda] [--json FILE]

The bank has six bands, 16 steps and 64 channels: forward, with backward in the signals, and in the
filters, too. A training step is forward, cross-entropy, backward and AdamW of a network of three
layers of width 64. Batches are 128 molecule-sized graphs, and the first 128 graphs of every packed
data set (:mod:`benchmarks.packed`); the share of bandwidth, that of a bank forward on all graphs of
a packed set, counts bytes as :mod:`benchmarks.speed.counting` does for diffusion, against a copy
that takes turns with it. Medians in milliseconds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.packed import unpack
from benchmarks.plain import molecules
from benchmarks.provenance import provenance
from benchmarks.speed import Plan
from benchmarks.speed.counting import diffusion_cost
from benchmarks.speed.rows import copying
from benchmarks.speed.timing import Run, compare, record
from legs.kernels.bank import Graph, difference_bank, prepare
from legs.models import create
from legs.nn import WaveletConv

WIDTH, LAYERS, FEATURES = 64, 3, 16
NETWORKS = ("legs-deep", "gcn-deep", "sage-deep", "gat-deep", "gin-deep")


def batches(packed: list[Path]) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    """Names, edges, graphs of nodes, and their numbers of nodes."""
    _, edge_index, batch = molecules()
    yield "128 molecule-sized graphs", edge_index, batch, batch.bincount()
    for path in packed:
        data = unpack(path)
        for count in sorted({128, len(data)}):
            graphs = data.batch(torch.arange(count))
            name = f"{data.name}, {graphs.batch_size:,} graphs"
            yield name, graphs.edge_index, graphs.batch, graphs.batch.bincount()


def bank_runs(graph: Any, x: Tensor, filters: Tensor) -> dict[str, Run]:
    """A bank forward, and with backward in signals and in filters."""
    signals, weights = x.clone().requires_grad_(), filters.clone().requires_grad_()
    gradient = torch.randn(len(x), len(filters), x.shape[1], device=x.device)

    def forward() -> Tensor:
        return difference_bank(graph, x, filters)

    def backward() -> Any:
        return torch.autograd.grad(difference_bank(graph, signals, filters), signals, gradient)

    def both() -> Any:
        out = difference_bank(graph, signals, weights)
        return torch.autograd.grad(out, [signals, weights], gradient)

    return {"bank": forward, "bank, gradient in x": backward, "bank, in filters too": both}


def training_step(name: str, edge_index: Tensor, batch: Tensor, graphs: int) -> Run:
    """Forward, cross-entropy, backward and AdamW of a network."""
    device = batch.device
    torch.manual_seed(0)
    network = create(name, FEATURES, 2, hidden_channels=WIDTH, num_layers=LAYERS).to(device)
    x, y = torch.rand(len(batch), FEATURES, device=device), torch.arange(graphs, device=device) % 2
    recordable = device.type == "cuda"
    adam = torch.optim.AdamW(network.parameters(), capturable=recordable, fused=recordable)

    def step() -> None:
        adam.zero_grad()
        out = network(x, edge_index, batch=batch, batch_size=graphs)
        F.cross_entropy(out, y).backward()
        adam.step()

    return step


def measure(device: torch.device, packed: list[Path]) -> list[dict[str, Any]]:
    """One row per run: batch, run, milliseconds, share of bandwidth."""
    rows = []
    conv = WaveletConv(WIDTH, WIDTH).to(device)
    filters: Tensor = conv.fixed_filters  # type: ignore[assignment]
    copy, moved = copying(device, Plan())
    for name, edge_index, batch, sizes in batches(packed):
        edge_index, batch, graphs = edge_index.to(device), batch.to(device), len(sizes)
        x = torch.rand(len(batch), WIDTH, device=device)
        options: dict[str, Any] = {"bands": len(filters), "states": filters.shape[1]}
        options["largest"] = int(sizes.max())
        graph = prepare("auto", x, edge_index, None, batch, graphs, **options)
        path = "fused" if isinstance(graph, Graph) else "reference"
        runs = bank_runs(graph, x, filters)
        if graphs > 128:
            runs = {"bank": runs["bank"], "copy": copy}
        else:
            runs |= {n: training_step(n, edge_index, batch, graphs) for n in NETWORKS}
        recorded = {k: record(run, device) if k != "copy" else run for k, run in runs.items()}
        turns = {k: recorded[k] or run for k, run in runs.items()}
        times = {k: t.seconds for k, t in compare(turns, device, seconds=1.0).items()}
        cost = diffusion_cost(len(x), edge_index.shape[1], WIDTH, filters.shape[1] - 1)
        for run, seconds in times.items():
            row: dict[str, Any] = {"batch": name, "largest": options["largest"], "run": run}
            row |= {"ms": 1e3 * (seconds or float("nan")), "path": path}
            row["recorded"] = recorded[run] is not None
            if run == "bank" and "copy" in times:
                row["bandwidth"] = cost.bytes / moved * (times["copy"] or 0) / (seconds or 1)
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    """Parses the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packed", type=Path, nargs="*", default=[])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    result = {"rows": measure(device, options.packed), **provenance(options.device)}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
