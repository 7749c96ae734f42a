"""Training rate in graphs per second: LEGS beside GCN and GIN, which take turns.

``python -m benchmarks.training_rate qm9 --device cuda``; a packed file (``benchmarks.packed``) in
place of the name. With several CPU threads set ``GOMP_SPINCOUNT=1000``, as ``legs`` does.
"""

from __future__ import annotations

import argparse
import json
from itertools import cycle
from pathlib import Path

import torch

from benchmarks.packed import unpack
from benchmarks.provenance import provenance
from benchmarks.speed.timing import Run, compare
from legs.data import load
from legs.data.dataset import GraphDataset
from legs.data.splits import random_split
from legs.models import create
from legs.training.inputs import Inputs
from legs.training.task import Task

MODELS = ("legs-fcn", "legs-fixed", "gcn", "gin")


def training_step(data: GraphDataset, model: str, batch_size: int, device: str) -> Run:
    """Forward, backward and Adam's step, on one batch after another."""
    train = torch.as_tensor(random_split(len(data)).train)
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
    batches = cycle(order[: len(order) // batch_size * batch_size].split(batch_size))

    def step() -> None:
        index = next(batches)
        optimizer.zero_grad()
        task.loss(inputs(network, index), target[index]).backward()
        optimizer.step()

    return step


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
    for size in args.batch_size:
        runs = {model: training_step(data, model, size, args.device) for model in MODELS}
        times = compare(runs, args.device, rounds=10_000, seconds=args.seconds)
        rates = {model: size / (timing.seconds or 1) for model, timing in times.items()}
        for model, value in rates.items():
            rows.append({"model": model, "batch_size": size, "graphs_per_second": value})
            print(f"{model}, batch {size}: {value:,.0f} graphs/s, {value / rates['gcn']:.2f} × gcn")
    if args.output:
        facts = {"data": data.name, "threads": torch.get_num_threads()}
        result = {**facts, **provenance(args.device), "rows": rows}
        args.output.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
