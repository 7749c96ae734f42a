"""Where a result comes from: machine, versions, date, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import legs
from legs.models.saving import versions

_SHARED = ", shared by "
_MORE_PACKAGES = ("scikit-learn", "numba", "triton")


def provenance(device: str, sharing: int = 1) -> dict[str, Any]:
    """What a result depends on besides its settings, as JSON values.

    Args:
        device: where it was computed.
        sharing: processes that did so there at a time (default 1): then times are longer.
    """
    shared = f"{_SHARED}{sharing}" if sharing > 1 else ""
    return {
        "device": device_name(device) + shared,
        "machine": machine(),
        "versions": {**versions(), **_versions(_MORE_PACKAGES)},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
    }


def apart(device: str) -> tuple[str, int]:
    """The name of a device in a result, and the processes that shared it.

    >>> apart("NVIDIA H200, shared by 8"), apart("CPU, 2 cores")
    (('NVIDIA H200', 8), ('CPU, 2 cores', 1))
    """
    name, shared, parts = device.partition(_SHARED)
    return name, int(parts) if shared else 1


def device_name(device: str) -> str:
    """The name of the device that computes.

    >>> device_name("cpu")
    'CPU, ... cores'
    """
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return f"CPU, {os.cpu_count()} cores"


def machine() -> str:
    """Processor and system."""
    name = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        pass
    return f"{name}, Python {platform.python_version()}, {platform.system()}"


@cache
def commit() -> str:
    """The commit of the source, if that lies in a Git repository of its own; else empty.

    A plus sign follows it where files have been changed since.
    """
    folder = Path(legs.__file__).parent
    # A package that was installed may lie inside somebody's repository without being part of it.
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return ""
    found = _git(folder, "rev-parse", "--short=12", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--", ".")
    return f"{found}{'+' if changed else ''}" if found else ""


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
