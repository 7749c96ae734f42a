"""One row per competitor: timed beside the others, with its ratio to the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from benchmarks.speed.counting import Cost
from benchmarks.speed.graphs import Loader
from benchmarks.speed.machine import Limits, free_memory
from benchmarks.speed.plan import Plan
from benchmarks.speed.timing import Run, Timing, compare, record

REFERENCE, COPY = "reference", "copy"
# The reference keeps about so many copies of all diffused states of the second order.
COPIES = 5


@dataclass(frozen=True)
class Row:
    """What one method took for one piece of work."""

    group: str  # of cases, one of GROUPS of the plan
    case: str  # what it ran on
    work: str  # "train step", "inference" or "diffusion"
    method: str  # "auto" is scattering as users have it, "reference" the plain formulation
    path: str  # the backend that was taken, as paths_of names it
    graphs: int
    nodes: int  # of all graphs
    edges: int  # of all graphs, both directions counted
    channels: int
    models: int = 1  # at once
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


class Skipped(Exception):
    """A case that cannot be measured here; the message says why."""


class Job(NamedTuple):
    """A case: its name, and what measures it."""

    name: str
    run: Callable[[], Iterable[Row]]


class Case(NamedTuple):
    """What all competitors of a comparison share."""

    group: str
    case: str
    work: str
    graphs: int
    nodes: int
    edges: int
    channels: int
    models: int = 1


@dataclass(frozen=True)
class Competitor:
    """A method that does the work."""

    run: Run  # does it once
    path: str
    counted: bool = True  # whether the formula's bytes and operations are its own
    needs: int = 0  # bytes of memory, estimated, where that may be too many
    memory: int | None = None  # bytes at its peak, where they were measured elsewhere


@dataclass(frozen=True)
class Bench:
    """Where and how to measure."""

    plan: Plan
    device: torch.device
    limits: Limits
    load: Loader
    seed: int = 0

    def compare(self, runs: Mapping[str, Run]) -> dict[str, Timing]:
        """Times competitors by the plan."""
        plan = self.plan
        return compare(
            runs, self.device, rounds=plan.rounds, least=plan.least, seconds=plan.seconds
        )


def measure(
    bench: Bench,
    case: Case,
    competitors: Mapping[str, Competitor],
    cost: Cost,
    copy: tuple[Run, int] | None = None,
) -> list[Row]:
    """One row per competitor, timed in turn; ratios are to ``"reference"``.

    ``copy``, a copy and the bytes it moves, takes turns with the competitors and is the limit
    instead of those measured at the start.
    """
    free = free_memory(bench.device)
    too_big = {n for n, c in competitors.items() if free is not None and c.needs > 0.8 * free}
    runs = {name: c.run for name, c in competitors.items() if name not in too_big}
    plain = bench.compare(runs if copy is None else {**runs, COPY: copy[0]})
    bound = bench.limits.seconds(cost)
    if copy is not None:
        copied = plain.pop(COPY).seconds
        assert copied is not None
        bound = cost.bytes * copied / copy[1]
    replays = _replayed(bench, {n: competitors[n] for n in runs if plain[n].seconds is not None})
    rows = []
    for name, one in competitors.items():
        if name in too_big:
            note = f"left out: needs about {one.needs / 1e9:.0f} GB"
            rows.append(Row(*case[:3], name, one.path, *case[3:], note=note))
            continue
        taken, replay = plain[name], replays.get(name, Timing(None))
        memory = one.memory if one.memory is not None else taken.memory
        rows.append(
            Row(
                *case[:3],
                name,
                one.path,
                *case[3:],
                ms=_ms(taken),
                ratio=_ratio(plain, name),
                share=_share(bound, taken, one),
                replay_ms=_ms(replay),
                replay_ratio=_ratio(replays, name),
                replay_share=_share(bound, replay, one),
                memory_mb=None if memory is None else memory / 1e6,
                first_s=taken.first,
                bytes=cost.bytes if one.counted else None,
                operations=cost.operations if one.counted else None,
                note=taken.failed,
            )
        )
    return rows


def _replayed(bench: Bench, competitors: Mapping[str, Competitor]) -> dict[str, Timing]:
    recorded = {n: record(c.run, bench.device) for n, c in competitors.items()}
    runs: dict[str, Run] = {n: step for n, step in recorded.items() if step is not None}
    return bench.compare(runs) if runs else {}


def _ms(timing: Timing) -> float | None:
    return None if timing.seconds is None else timing.seconds * 1e3


def _ratio(timings: Mapping[str, Timing], name: str) -> float | None:
    own, reference = timings.get(name), timings.get(REFERENCE)
    if own is None or own.seconds is None or reference is None or reference.seconds is None:
        return None
    return reference.seconds / own.seconds


def _share(bound: float, timing: Timing, one: Competitor) -> float | None:
    return None if timing.seconds is None or not one.counted else bound / timing.seconds


def reference_needs(
    nodes: int, channels: int, scales: int = 5, steps: int = 16, models: int = 1
) -> int:
    """Bytes that a train step of the reference takes, roughly."""
    return COPIES * 4 * nodes * models * channels * max(scales - 1, 1) * steps
