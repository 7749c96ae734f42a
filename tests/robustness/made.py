"""Small data for runs in processes of their own."""

from __future__ import annotations

import numpy as np


def tu_parts(graphs: int = 36, seed: int = 0) -> dict[str, str]:
    """A set in TUDataset's layout: trees and rings of a few nodes, told apart by their class."""
    rng = np.random.default_rng(seed)
    edges, owner, labels, first = [], [], [], 1
    for number in range(graphs):
        size = int(rng.integers(4, 9))
        if number % 2:
            pairs = [(k, (k + 1) % size) for k in range(size)]
        else:
            pairs = [(k, int(rng.integers(k))) for k in range(1, size)]
        edges += [f"{first + a}, {first + b}\n{first + b}, {first + a}\n" for a, b in pairs]
        owner += [f"{number + 1}\n"] * size
        labels.append(f"{number % 2}\n")
        first += size
    return {
        "A": "".join(edges),
        "graph_indicator": "".join(owner),
        "graph_labels": "".join(labels),
    }
