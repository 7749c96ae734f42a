"""Where work runs: independent tasks in, results out as they finish.

:class:`LocalEngine` has processes of this machine, :class:`legs.engine.ray.RayEngine` a cluster.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

__all__ = ["Engine", "EngineError", "LocalEngine", "open_engine"]

R = TypeVar("R")
POLL_SECONDS = 1.0  # between a worker's checks that its caller lives
AHEAD = 2  # tasks in flight per worker: one running, one waiting
# Where data sets and caches are: workers look in the same places, wherever they were started.
INHERITED = ("LEGS_DATA", "XDG_CACHE_HOME")


class EngineError(OSError):
    """Workers that cannot be started or that died; the message says what to do."""


class Engine(AbstractContextManager["Engine"], ABC):
    """Runs independent tasks on some workers.

    A task may run twice, if its worker died: it must write whole files, and the same each time.
    """

    @property
    @abstractmethod
    def workers(self) -> int:
        """Number of tasks that run at once."""

    @abstractmethod
    def run(
        self, work: Callable[[Any, Any], R], shared: Any, tasks: Iterable[Any], *, gpus: float = 0
    ) -> Iterator[tuple[int, R]]:
        """``work(shared, task)`` for every task.

        Args:
            work: a function of a module, so that other processes can import it.
            shared: what all tasks need.
            tasks: any number, even endless: they are read as workers become free.
            gpus: GPUs per task, or a share of one (default 0); one of this machine is shared by
                all local workers.

        Yields:
            The number of a task, from 0, and its result, in the order in which tasks finish.

        Raises:
            EngineError: a worker was lost, and the task could not run elsewhere.
        """

    def __exit__(self, *error: object) -> None:
        return None


class LocalEngine(Engine):
    """Processes of this machine; with one worker, this process itself.

    Args:
        workers: number of processes (default: one per core).

    >>> with LocalEngine(workers=1) as engine:
    ...     list(engine.run(divmod, 17, [5, 6]))
    [(0, (3, 2)), (1, (2, 5))]
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers is at least 1, not {workers}")
        self._workers = workers or os.cpu_count() or 1

    @property
    def workers(self) -> int:
        return self._workers

    def run(
        self, work: Callable[[Any, Any], R], shared: Any, tasks: Iterable[Any], *, gpus: float = 0
    ) -> Iterator[tuple[int, R]]:
        if self.workers == 1:
            for number, task in enumerate(tasks):
                yield number, work(shared, task)
            return
        # joblib reads tasks as workers become free, and its processes do not run the user's script.
        ahead, order = AHEAD * self.workers, "generator_unordered"
        pool = Parallel(self.workers, batch_size=1, pre_dispatch=ahead, return_as=order)
        job = (work, shared, inherited_environment(), os.getpid())
        results = pool(delayed(call)(job, *pair) for pair in enumerate(tasks))
        try:
            # Not `yield from`, which would close the pool before the warnings are off.
            for pair in results:  # noqa: UP028
                yield pair
        except TerminatedWorkerError as error:
            raise EngineError(
                "a worker process was killed, by the system if memory ran out; what is finished "
                "is kept, and the same command resumes"
            ) from error
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about unfinished tasks: nobody waits for them
                results.close()


def open_engine(name: str = "local", address: str | None = None, **options: Any) -> Engine:
    """An engine by name, to be used in a ``with`` block.

    Args:
        name: ``"local"`` (default): processes of this machine. ``"ray"``: a Ray cluster.
        address: of the cluster (default: see :class:`~legs.engine.ray.RayEngine`).
        options: of the engine, such as ``workers`` of the local one.

    >>> with open_engine("local", workers=1) as engine:
    ...     sorted(engine.run(pow, 2, [1, 2, 3]))
    [(0, 2), (1, 4), (2, 8)]
    """
    if name == "ray":
        from legs.engine.ray import RayEngine

        return RayEngine(address, **options)
    if name != "local":
        raise ValueError(f"no engine is called {name!r}; there are local and ray")
    if address is not None:
        raise ValueError("an address is that of a Ray cluster, for the engine 'ray' alone")
    return LocalEngine(**options)


def inherited_environment() -> dict[str, str]:
    """Variables of this process's environment that workers need."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def call(job: tuple[Any, Any, dict[str, str], int | None], number: int, task: Any) -> Any:
    """The number and the result of a task, in a worker; the last of ``job`` is whom to end with."""
    work, shared, variables, caller = job
    os.environ.update(variables)  # a process may have been started for an earlier call
    if caller is not None:
        end_with(caller)
    return number, work(shared, task)


@cache
def end_with(caller: int) -> None:
    """Ends this process soon after its parent, ``caller``: nobody else would."""
    if os.getpid() == caller:  # a call within a task runs in the worker itself
        return

    def watch() -> None:
        while os.getppid() == caller:
            time.sleep(POLL_SECONDS)
        os._exit(1)  # at once, in the middle of the task: its files are written whole or not

    threading.Thread(target=watch, daemon=True).start()
