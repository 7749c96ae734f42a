"""What is measured, and one row per competitor, timed beside the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch

from benchmarks.speed.counting import Cost
from benchmarks.speed.timing import Run, Timing, compare, record, timed
from legs.data.dataset import GraphDataset

REFERENCE, COPY = "reference", "copy"
GPU_MATRIX = 8192  # rows of the matrices that are multiplied to find the rate of a GPU
REPEATS = 5  # of the runs that find a limit, of which the best counts
GROUPS = ("batches", "single", "growth")
# Number of nodes and edges first: they need no kernel of their own, the others may.
SERIES = {
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

    # Of each a batch is taken; the first is also taken whole.
    sets: tuple[str, ...] = ("NCI1", "PROTEINS", "REDDIT-BINARY")
    graphs: int = 128  # in a batch
    models: int = 90  # that are run at once on a batch
    edges: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7)  # of single graphs, both directions
    channels: int = 16  # of the signals on them
    steps: int = 16  # of diffusion on them
    whole_step_up_to: int = 10**6  # edges of the largest single graph that is trained on
    nodes: int = 4096  # of the train step that grows, unless they are what grows
    # What grows, and the values it takes.
    series: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: SERIES)
    rounds: int = 25  # turns of each competitor at most
    least: int = 5  # and at least
    seconds: float = 5.0  # after which a competitor gets no more turns than at least
    copied: int = 2**29  # bytes of the tensor that is copied to find the bandwidth
    matrix: int = 2048  # rows of the matrices that are multiplied to find the rate on a CPU


@dataclass(frozen=True)
class Row:
    """What one method took for one piece of work."""

    group: str  # of cases, one of GROUPS of the plan
    case: str  # what it ran on
    work: str  # "train step", "inference" or "diffusion"
    graphs: int
    nodes: int  # of all graphs
    edges: int  # of all graphs, both directions counted
    channels: int
    models: int = 1  # at once
    method: str = ""  # "auto" is scattering as users have it, "reference" the plain formulation
    path: str = ""  # the backend that was taken, as fused_path names it
    ms: float | None = None  # median of a run; None where it failed
    ratio: float | None = None  # how many times as fast as the reference in the same run
    share: float | None = None  # of the machine's limit: time of the counted cost over time taken
    replay_ms: float | None = None  # the same recorded and replayed on a GPU
    replay_ratio: float | None = None  # to the reference replayed
    replay_share: float | None = None
    memory_mb: float | None = None  # at the peak, beyond what was there before, in 10⁶ bytes
    first_s: float | None = None  # of the first run, with compiling
    bytes: int | None = None  # counted by formula
    operations: int | None = None  # counted by formula
    note: str = ""


@dataclass(frozen=True)
class Limits:
    """Of a machine."""

    copy: float  # bytes read and written per second by a large copy
    multiply: float  # multiplications and additions per second by a product of float32 matrices

    @classmethod
    def of(cls, device: torch.device, plan: Plan) -> Limits:
        """Measured: copies a large tensor and multiplies large matrices."""
        count, rows = (20, GPU_MATRIX) if device.type == "cuda" else (1, plan.matrix)
        copy, moved = copying(device, plan)
        a = torch.randn(rows, rows, device=device)
        out = torch.empty_like(a)
        copied, multiplied = (
            min(timed(run, device, count) for _ in range(REPEATS))
            for run in (copy, lambda: torch.mm(a, a, out=out))
        )
        return cls(moved / copied, 2 * rows**3 / multiplied)

    def seconds(self, cost: Cost) -> float:
        """How long a task takes that reaches the nearer of both limits.

        >>> Limits(copy=100.0, multiply=1000.0).seconds(Cost(bytes=50, operations=100))
        0.5
        """
        return max(cost.bytes / self.copy, cost.operations / self.multiply)


def copying(device: torch.device, plan: Plan) -> tuple[Run, int]:
    """A large copy, and the bytes it reads and writes."""
    source = torch.zeros(plan.copied // 4, device=device)
    out = torch.empty_like(source)
    return lambda: out.copy_(source), 2 * source.nbytes


@dataclass(frozen=True)
class Bench:
    """Where and how to measure."""

    plan: Plan
    device: torch.device
    limits: Limits
    load: Callable[[str], GraphDataset]  # a data set by name
    seed: int = 0

    def compare(self, runs: Mapping[str, Run]) -> dict[str, Timing]:
        """Times competitors by the plan."""
        rounds, least, seconds = self.plan.rounds, self.plan.least, self.plan.seconds
        return compare(runs, self.device, rounds=rounds, least=least, seconds=seconds)


@dataclass(frozen=True)
class Competitor:
    """A method that does the work."""

    run: Run  # does it once
    path: str
    counted: bool = True  # whether the formula's bytes and operations are its own
    memory: int | None = None  # bytes at its peak, where they were measured elsewhere


def measure(
    bench: Bench,
    case: Row,
    competitors: Mapping[str, Competitor],
    cost: Cost,
    copy: tuple[Run, int] | None = None,
) -> list[Row]:
    """One row per competitor, timed in turn, with what ``case`` says of all; the ratio is to
    ``"reference"``.

    ``copy``, a copy and the bytes it moves, takes turns with the competitors and is the limit
    instead of those measured at the start.
    """
    runs = {name: one.run for name, one in competitors.items()}
    plain = bench.compare(runs if copy is None else {**runs, COPY: copy[0]})
    bound = bench.limits.seconds(cost)
    if copy is not None:
        copied = plain.pop(COPY).seconds
        assert copied is not None
        bound = cost.bytes * copied / copy[1]
    recorded = {n: record(run, bench.device) for n, run in runs.items() if plain[n].seconds}
    replays = bench.compare({n: step for n, step in recorded.items() if step is not None})
    rows = []
    for name, one in competitors.items():
        memory = one.memory if one.memory is not None else plain[name].memory
        ms, ratio, share = _figures(plain, name, bound)
        replay_ms, replay_ratio, replay_share = _figures(replays, name, bound)
        row = replace(
            case,
            method=name,
            path=one.path,
            ms=ms,
            ratio=ratio,
            replay_ms=replay_ms,
            replay_ratio=replay_ratio,
            memory_mb=None if memory is None else memory / 1e6,
            first_s=plain[name].first,
            note=plain[name].failed,
        )
        if one.counted:
            row = replace(row, share=share, replay_share=replay_share, **cost._asdict())
        rows.append(row)
    return rows


def _figures(
    timings: Mapping[str, Timing], name: str, bound: float
) -> tuple[float | None, float | None, float | None]:
    """Milliseconds, how many times as fast as the reference, and the share of the limit."""
    taken, reference = (timings.get(n, Timing(None)).seconds for n in (name, REFERENCE))
    if taken is None:
        return None, None, None
    return taken * 1e3, None if reference is None else reference / taken, bound / taken
