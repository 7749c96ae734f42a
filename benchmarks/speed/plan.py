"""What is measured, and how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

GROUPS = ("batches", "single", "growth")

# The first is also taken whole.
SETS = ("NCI1", "PROTEINS", "REDDIT-BINARY")

# Number of nodes and edges first: they need no kernel of their own, the others may.
_SERIES = {
    "nodes": (4096, 16384, 65536),
    "edges": (8192, 16384, 32768, 65536, 131072),
    "models": (1, 10, 30, 90),
    "channels": (1, 2, 4, 8, 16),
    "scales": (2, 4, 6, 8),
    "steps": (8, 16, 32, 64),
}


@dataclass(frozen=True)
class Plan:
    """Sizes and durations."""

    sets: tuple[str, ...] = SETS  # of each a batch is taken
    graphs: int = 128  # in a batch
    whole: bool = True  # whether the first set is also taken as one batch
    models: int = 90  # that are run at once on a batch
    edges: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7)  # of single graphs, both directions
    channels: int = 16  # of the signals on them
    steps: int = 16  # of diffusion on them
    whole_step_up_to: int = 10**6  # edges of the largest single graph that is trained on
    nodes: int = 4096  # of the train step that grows, unless they are what grows
    # What grows, and the values it takes.
    series: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType(_SERIES))
    rounds: int = 25  # turns of each competitor at most
    least: int = 5  # and at least
    seconds: float = 5.0  # after which a competitor gets no more turns than at least
    copied: int = 2**29  # bytes of the tensor that is copied to find the bandwidth
    matrix: int = 2048  # rows of the matrices that are multiplied to find the rate on a CPU
