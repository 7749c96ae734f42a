"""The engine of one machine: this process, or one process a core."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import TracebackType
from typing import Self

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from legs.engine.base import AHEAD, EngineError, R, S, T, carried

EVERY_SECONDS = 1.0  # that a worker looks whether anybody waits for it


class LocalEngine:
    """Processes of this machine; with one worker, this process itself.

    Args:
        workers: processes (default: one a core).

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
        """See :class:`legs.engine.Engine`."""
        return self._workers

    def run(
        self, work: Callable[[S, T], R], shared: S, tasks: Iterable[T], *, gpus: float = 0
    ) -> Iterator[tuple[int, R]]:
        """See :class:`legs.engine.Engine`; a GPU of this machine is shared by all workers."""
        if self.workers == 1:
            for number, task in enumerate(tasks):
                yield number, work(shared, task)
            return
        # joblib takes tasks as workers come free, and its processes do not run the user's script.
        pool = Parallel(
            n_jobs=self.workers,
            batch_size=1,
            pre_dispatch=AHEAD * self.workers,
            return_as="generator_unordered",
        )
        context = carried(), os.getpid()
        calls = (delayed(_call)(work, shared, pair, *context) for pair in enumerate(tasks))
        results = pool(calls)
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
                warnings.simplefilter("ignore")  # that tasks are in work: nobody waits for them
                results.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to do: joblib's processes are used again, and end with this one."""


def _call(
    work: Callable[[S, T], R], shared: S, pair: tuple[int, T], places: dict[str, str], caller: int
) -> tuple[int, R]:
    os.environ.update(places)  # a process may have been started for an earlier call
    end_with(caller)
    number, task = pair
    return number, work(shared, task)


@cache
def end_with(caller: int) -> None:
    """Ends this process, a worker, soon after the one that started it and waits for it.

    joblib's processes look for that between tasks only, and a task can take hours.
    """
    if os.getpid() == caller:  # joblib does what it is asked for within a task by itself
        return

    def watch() -> None:
        while os.getppid() == caller:
            time.sleep(EVERY_SECONDS)
        os._exit(1)  # at once, in the middle of the task: its files are written whole or not

    threading.Thread(target=watch, daemon=True).start()
