"""The machine: what it is called, and the limits that it reaches in this very run."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.provenance import installed, processor
from benchmarks.speed.counting import Cost
from benchmarks.speed.plan import Plan
from benchmarks.speed.timing import Run, timed
from legs.models.saving import versions

GPU_MATRIX = 8192
REPEATS = 5


@dataclass(frozen=True)
class Limits:
    """Measured, the best of some repeats."""

    copy: float  # bytes read and written per second by a large copy
    multiply: float  # multiplications and additions per second by a product of float32 matrices

    def seconds(self, cost: Cost) -> float:
        """How long a task takes that reaches the nearer of both limits.

        >>> Limits(copy=100.0, multiply=1000.0).seconds(Cost(bytes=50, operations=100))
        0.5
        """
        return max(cost.bytes / self.copy, cost.operations / self.multiply)


def measure_limits(device: torch.device, plan: Plan) -> Limits:
    """Copies a large tensor and multiplies large matrices."""
    count = 20 if device.type == "cuda" else 1
    copy, moved = copying(device, plan)
    taken = _best(copy, device, count)
    rows = GPU_MATRIX if device.type == "cuda" else plan.matrix
    a = torch.randn(rows, rows, device=device)
    out = torch.empty_like(a)
    multiplying = _best(lambda: torch.mm(a, a, out=out), device, count)
    return Limits(moved / taken, 2 * rows**3 / multiplying)


def copying(device: torch.device, plan: Plan) -> tuple[Run, int]:
    """A large copy, and the bytes it reads and writes."""
    source = torch.zeros(plan.copied // 4, device=device)
    out = torch.empty_like(source)
    return lambda: out.copy_(source), 2 * source.numel() * source.element_size()


def _best(run: Run, device: torch.device, count: int) -> float:
    return min(timed(run, device, count) for _ in range(REPEATS))


def describe(device: torch.device) -> dict[str, Any]:
    """Machine, versions and date, as JSON values."""
    facts: dict[str, Any] = {
        "device": device.type,
        "machine": name_of(device),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {
            "python": platform.python_version(),
            **versions(),
            **installed("numba"),
        },
    }
    if device.type == "cuda":
        facts["versions"]["cuda"] = torch.version.cuda
    return facts


def name_of(device: torch.device) -> str:
    """The name of a GPU, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return processor()


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had; ``None`` where nobody says."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    return sizes[0] if sizes else None
