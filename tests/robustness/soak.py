"""``python -m tests.robustness.soak``: many batches forward and backward, and the memory they take.

A leak of a few hundred bytes a batch shows after ten thousand of them.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from legs.models import create
from tests.backends import prefer
from tests.robustness.origin import parser_of, write_counts
from tests.training.made import made_data

BATCHES = 10_000
MOST = 8.0  # megabytes that memory may grow by, once everything has been used
WARM = 0.2  # of the batches, until libraries have what they keep


def soak(batches: int, way: str, every: int = 0) -> dict[str, Any]:
    """Trains a network on batches of changing sizes.

    Args:
        batches: how many.
        way: ``"reference"`` or ``"fused"``, what ``backend="auto"`` is to mean.
        every: batches between two looks at the memory (default: a hundredth).

    Returns:
        Memory in megabytes after the warm-up, at the end, and what it grew by in between.
    """
    data = made_data(graphs=200, weighted=True)
    network = create("legs-fcn", data.in_channels, 2)
    optimizer = torch.optim.Adam(network.parameters())
    rng = np.random.default_rng(0)
    every = every or max(batches // 100, 1)
    seen: list[tuple[int, float]] = []
    with prefer("fused" if way == "fused" else "reference"):
        for number in range(batches):
            some = data.batch(rng.integers(200, size=int(rng.integers(8, 64))))
            out = network(*some[:5])
            assert some.y is not None
            loss = torch.nn.functional.cross_entropy(out, some.y)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if number % every == 0:
                gc.collect()
                seen.append((number, resident()))
    settled = [memory for number, memory in seen if number >= WARM * batches]
    # Allocators breathe: a leak lifts the lowest levels as well.
    third = max(len(settled) // 3, 1)
    grown = min(settled[-third:]) - min(settled[:third])
    return {
        "way": way,
        "batches": batches,
        "start": round(seen[0][1], 1),
        "warm": round(settled[0], 1),
        "end": round(settled[-1], 1),
        "grown": round(grown, 2),
    }


def resident() -> float:
    """Megabytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    """Runs both ways and writes; the exit code is 1 if memory grew."""
    parser = parser_of("tests.robustness.soak", __doc__, "soak.json")
    parser.add_argument("--batches", type=int, default=BATCHES)
    given = parser.parse_args()
    start = time.monotonic()
    ways = [soak(given.batches, way) for way in ("reference", "fused")]
    known = {
        "seconds": round(time.monotonic() - start, 1),
        "batches": sum(row["batches"] for row in ways),
        "grown": max(row["grown"] for row in ways),
        "most": MOST,
        "ways": ways,
    }
    write_counts(given, known)
    print(*ways, sep="\n")
    return 1 if known["grown"] > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
