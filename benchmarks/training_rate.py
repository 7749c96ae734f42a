"""Training rate in graphs per second: LEGS beside GCN and GIN, the same loop for all.

``python -m benchmarks.training_rate qm9 --device cuda``; a packed file (``benchmarks.packed``) in
place of the name. With several CPU threads set ``GOMP_SPINCOUNT=1000``, as ``legs`` does.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from benchmarks.packed import unpack
from benchmarks.provenance import provenance
from legs.data import load
from legs.data.dataset import GraphDataset
from legs.data.splits import random_split
from legs.models import create
from legs.training.inputs import Inputs
from legs.training.task import Task

MODELS = ("legs-fcn", "legs-fixed", "gcn", "gin")


def rate(data: GraphDataset, model: str, batch_size: int, device: str, seconds: float) -> float:
    """Graphs per second of forward, backward and Adam's step, after a warm-up."""
    split = random_split(len(data))
    train = torch.as_tensor(split.train)
    task = Task.of(data, train)
    network = create(model, data.in_channels, data.out_channels)
    for module in network.modules():
        if hasattr(module, "validate"):
            module.validate = False
    network.initialize(data.subset(train[:1000]).x)
    network.to(device).train()
    inputs = Inputs(data, network, torch.device(device))
    assert data.y is not None
    target = task.targets(data.y).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    order = train[torch.randperm(len(train))].to(device)

    def step(index: torch.Tensor) -> None:
        optimizer.zero_grad()
        task.loss(inputs(network, index), target[index]).backward()
        optimizer.step()

    batches = order.split(batch_size)
    for index in batches[:5]:
        step(index)
    _wait(device)
    start, graphs, k = time.perf_counter(), 0, 5
    while time.perf_counter() - start < seconds:
        index = batches[k % len(batches)]
        step(index)
        _wait(device)
        graphs += len(index)
        k += 1
    return graphs / (time.perf_counter() - start)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    data = unpack(args.data) if args.data.endswith(".npz") else load(args.data)
    rows = []
    for batch_size in args.batch_size:
        rates = {m: rate(data, m, batch_size, args.device, args.seconds) for m in MODELS}
        for model, value in rates.items():
            rows.append({"model": model, "batch_size": batch_size, "graphs_per_second": value})
            print(
                f"{model:<12} batch {batch_size:<6} {value:12,.0f} graphs/s "
                f"{value / rates['gcn']:6.2f} × gcn"
            )
    if args.output:
        facts = {"data": data.name, "threads": torch.get_num_threads()}
        result = {**facts, **provenance(args.device), "rows": rows}
        args.output.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
