"""Runs the cases one after another and keeps what they gave."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from benchmarks.speed import batches, growth, single
from benchmarks.speed.graphs import Loader, load_local
from benchmarks.speed.machine import Limits, describe, measure_limits
from benchmarks.speed.plan import GROUPS, Plan
from benchmarks.speed.rows import Bench, Row, Skipped

_JOBS = {"batches": batches.jobs, "single": single.jobs, "growth": growth.jobs}

Report = Callable[[int, int, str], None]


@dataclass
class Result:
    """What was measured so far."""

    machine: dict[str, Any]  # its name, versions, date
    plan: Plan
    limits: Limits  # of the machine, measured in this run
    seed: int  # of graphs, signals and gradients
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # lines about what was left out
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON values."""
        plan = {name: getattr(self.plan, name) for name in self.plan.__dataclass_fields__}
        return {
            **self.machine,
            "seed": self.seed,
            "seconds": self.seconds,
            "limits": asdict(self.limits),
            "plan": {**plan, "series": dict(self.plan.series)},
            "skipped": list(self.skipped),
            "rows": [asdict(row) for row in self.rows],
        }


def run(
    plan: Plan,
    device: str = "auto",
    *,
    groups: Sequence[str] = GROUPS,
    threads: int | None = None,
    seed: int = 0,
    load: Loader = load_local,
    report: Report = lambda done, cases, name: None,
    keep: Callable[[Result], None] = lambda result: None,
) -> Result:
    """Measures speed, and peak memory, by a plan.

    Data sets that ``load`` cannot find are skipped. ``report`` is called before each case with the
    number done, that of all, and its name; ``keep`` after each case with the result so far.
    """
    chosen = check_device(device)
    for group in groups:
        if group not in GROUPS:
            raise ValueError(f"there is no group {group!r}; there are {', '.join(GROUPS)}")
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        return _run(plan, chosen, groups, seed, load, report, keep)
    finally:
        torch.set_num_threads(before)


def check_device(name: str) -> torch.device:
    """The device of a name; ``"auto"`` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise ValueError(f'the device is "auto", "cpu" or "cuda"; got {name!r}')
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("PyTorch finds no CUDA device here; take --device cpu")
    return torch.device(name)


def _run(
    plan: Plan,
    device: torch.device,
    groups: Sequence[str],
    seed: int,
    load: Loader,
    report: Report,
    keep: Callable[[Result], None],
) -> Result:
    start = time.monotonic()
    report(0, 1, "limits of the machine")
    result = Result(describe(device), plan, measure_limits(device, plan), seed)
    bench = Bench(plan, device, result.limits, load, seed)
    jobs = [job for group in GROUPS if group in groups for job in _JOBS[group](bench)]
    for done, job in enumerate(jobs):
        report(done, len(jobs), job.name)
        try:
            result.rows.extend(job.run())
        except Skipped as error:
            result.skipped.append(f"{job.name}: {error}")
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        result.seconds = time.monotonic() - start
        keep(result)
    report(len(jobs), len(jobs), "")
    return result
