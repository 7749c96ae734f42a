"""What is measured, and how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

GROUPS = ("batches", "single", "growth")

# NCI1 first: where it is missing, the molecules inside RDKit's package stand in for it.
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
    """Sizes and durations.

    Args:
        sets: names of data sets; of each a batch is taken.
        graphs: in a batch.
        whole: whether the first set is also taken as one batch.
        models: that are run at once on a batch.
        edges: of the single graphs, both directions counted.
        channels: of the signals on them.
        steps: of diffusion on them.
        whole_step_up_to: edges of the largest single graph that a train step is taken on.
        nodes: of the train step that grows, unless they are what grows.
        series: what grows, and the values it takes.
        rounds: the most turns each competitor gets.
        least: the fewest.
        seconds: for each competitor; after that it gets no more turns than ``least``.
        copied: bytes of the tensor that is copied to find the bandwidth.
        matrix: rows of the square matrices that are multiplied to find the rate on a CPU.
        limit: seconds after which no case is begun; ``None`` for no limit.
    """

    sets: tuple[str, ...] = SETS
    graphs: int = 128
    whole: bool = True
    models: int = 90
    edges: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7)
    channels: int = 16
    steps: int = 16
    whole_step_up_to: int = 10**6
    nodes: int = 4096
    series: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType(_SERIES))
    rounds: int = 25
    least: int = 5
    seconds: float = 5.0
    copied: int = 2**29
    matrix: int = 2048
    limit: float | None = None


FULL = Plan()
QUICK = Plan(
    whole=False,
    models=10,
    edges=(10**4, 10**5, 10**6),
    whole_step_up_to=10**5,
    series=MappingProxyType(
        {
            "nodes": (4096, 16384),
            "edges": (16384, 65536),
            "models": (1, 10),
            "channels": (2, 8),
            "scales": (3, 5),
            "steps": (8, 16),
        }
    ),
    rounds=7,
    least=2,
    seconds=0.25,
    copied=2**27,
    matrix=1024,
    limit=32.0,
)


def plan_of(quick: bool) -> Plan:
    """The plan of a minute, or the full one.

    >>> plan_of(quick=True).models
    10
    """
    return QUICK if quick else FULL
