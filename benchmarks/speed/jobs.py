"""Cases to be measured one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from benchmarks.speed.rows import Row


class Skipped(Exception):
    """A case that cannot be measured here; the message says why."""


class Job(NamedTuple):
    """A case: its name, and what measures it."""

    name: str
    run: Callable[[], Iterable[Row]]
