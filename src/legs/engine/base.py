"""What an engine is: independent tasks go in, their results come out as they are done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

# Tasks in flight per worker: one that runs, one that waits.
AHEAD = 2
# Where data sets and caches are: workers look in the same places, wherever they began.
CARRIED = ("LEGS_DATA", "XDG_CACHE_HOME")


class EngineError(OSError):
    """Workers that cannot be had or that died; the message says what to do."""


def carried() -> dict[str, str]:
    """What workers have to know of this process's environment."""
    return {name: os.environ[name] for name in CARRIED if name in os.environ}


class Engine(Protocol):
    """Does tasks that do not depend on each other, somewhere.

    A task may be done twice, where a worker died after it or was taken for dead: what it writes
    must be whole files, and the same each time.
    """

    @property
    def workers(self) -> int:
        """How many tasks are done at once."""

    def run(
        self, work: Callable[[S, T], R], shared: S, tasks: Iterable[T], *, gpus: float = 0
    ) -> Iterator[tuple[int, R]]:
        """``work(shared, task)`` for every task.

        Args:
            work: a function of a module, so that other processes find it.
            shared: what all tasks need; sent once, not with every task.
            tasks: any number. They are taken from the iterator when workers are about to be free,
                and no earlier: a reader may be endless.
            gpus: GPUs that a task needs, or a share of one (default 0).

        Yields:
            The number of a task, from 0, and its result, in the order in which they are done.

        Raises:
            EngineError: a worker was lost, and the task could not be done elsewhere.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def open_engine(name: str = "local", address: str | None = None, **options: Any) -> Engine:
    """An engine by name, to be used in a ``with`` block.

    Args:
        name: ``"local"`` (default): processes of this machine. ``"ray"``: a Ray cluster.
        address: of the cluster (default: Ray's own choice, which is ``$RAY_ADDRESS``, a cluster
            that runs here, or one that is started on this machine and ends with the block).
        options: of the engine, such as ``workers`` of the local one.

    >>> with open_engine("local", workers=1) as engine:
    ...     sorted(engine.run(pow, 2, [1, 2, 3]))
    [(0, 2), (1, 4), (2, 8)]
    """
    if name == "local":
        from legs.engine.local import LocalEngine

        if address is not None:
            raise ValueError("an address is that of a Ray cluster, for the engine 'ray' alone")
        return LocalEngine(**options)
    if name == "ray":
        from legs.engine.ray import RayEngine

        return RayEngine(address, **options)
    raise ValueError(f"no engine is called {name!r}; there are local and ray")
