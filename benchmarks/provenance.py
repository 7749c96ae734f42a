"""Where a result comes from: device, machine, versions, date, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from legs.models.saving import versions


def provenance(device: str, sharing: int = 1) -> dict[str, Any]:
    """What a result depends on besides its settings, as JSON values.

    ``sharing`` processes on the device make times longer.
    """
    name = f"CPU, {os.cpu_count()} cores"
    if device.startswith("cuda"):
        name = str(torch.cuda.get_device_name(device))
    return {
        "device": f"{name}, shared by {sharing}" if sharing > 1 else name,
        "machine": f"{processor()}, Python {platform.python_version()}, {platform.system()}",
        "versions": versions() | installed("scikit-learn", "numba", "triton"),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
    }


def installed(*packages: str) -> dict[str, str]:
    """Versions of those packages that are there."""
    numbers = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            numbers[package] = version(package)
    return numbers


def processor() -> str:
    """Its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.machine()


@cache
def commit() -> str:
    """The commit of this clone, followed by a plus sign where files have changed; else empty."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "reproduction", "benchmarks")
    return f"{head}{'+' if changed else ''}" if head else ""


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parents[1]), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
