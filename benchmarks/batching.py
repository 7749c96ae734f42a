"""A training step of learned scattering: one block-diagonal batch against a loop over graphs.

Order 2, four moments, two channels (eccentricity and clustering coefficient), 128 real molecules.
"""

from __future__ import annotations

import torch

from benchmarks.timing import compare
from legs import Scattering
from legs.data import load


def main() -> None:
    data = load("nci-5k", features="structure", limit=128)
    batch = data.whole()
    singles = [data.batch([i]) for i in range(len(data))]
    module = Scattering(data.in_channels, validate=False)
    target = torch.randn(len(data), module.out_channels)

    def batched() -> None:
        module.zero_grad()
        out = module(batch.x, batch.edge_index, batch=batch.batch, batch_size=batch.batch_size)
        (out - target).square().mean().backward()

    def looped() -> None:
        module.zero_grad()
        out = torch.cat([module(graph.x, graph.edge_index) for graph in singles])
        (out - target).square().mean().backward()

    seconds = compare({"batched": batched, "one by one": looped}, rounds=5)
    ratio = seconds["one by one"] / seconds["batched"]
    print(f"training step, {len(data)} molecules, {data.num_nodes} nodes, order 2, four moments")
    for name, value in seconds.items():
        print(f"  {name:<12} {value / seconds['batched']:6.1f} ×")
    print(f"  batched is {ratio:.1f} times faster than one graph after another")


if __name__ == "__main__":
    main()
