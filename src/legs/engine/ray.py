"""The engine of a cluster. This is the only file that knows of Ray.

Ray's tasks, not Ray Data: its streams promise no row numbers, cut their blocks by what memory there
is, and start again after an interruption, while here a task has a number that is the same in every
run, so that what is finished stays so. Back-pressure is a bound on the tasks in flight.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self

from legs.engine.base import AHEAD, EngineError, R, S, T, carried

# A task whose worker or node died is done again elsewhere, so often; then the task is to blame.
RETRIES = 20


class RayEngine:
    """Tasks on the nodes of a Ray cluster, a core each.

    Every node needs torch-legs in the same version, and sees the folders of input and output under
    the same paths. A worker or a node that dies costs the tasks it was doing, which are done again
    elsewhere. The node of this process must live.

    Args:
        address: ``"HOST:PORT"`` or ``"auto"`` (default: ``$RAY_ADDRESS``, a cluster that runs here,
            or one that is started on this machine, and ends with the ``with`` block).
        options: of ``ray.init``, such as ``num_cpus`` for a cluster that is started here.
    """

    def __init__(self, address: str | None = None, **options: Any) -> None:
        self._ray = _ray()
        self._own = not self._ray.is_initialized()
        if not self._own:
            return
        try:
            _knock(address or os.environ.get("RAY_ADDRESS", ""))
            self._ray.init(
                address=address,
                log_to_driver=False,
                logging_level="ERROR",
                include_dashboard=False,
                **options,
            )
        except (OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise EngineError(
                f"no Ray cluster at {address or 'this machine'}: {reason}; `ray status` lists "
                "those that run, `ray start --head` starts one"
            ) from error

    @property
    def workers(self) -> int:
        """Cores of the cluster, which may change while it works."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(
        self, work: Callable[[S, T], R], shared: S, tasks: Iterable[T], *, gpus: float = 0
    ) -> Iterator[tuple[int, R]]:
        """See :class:`legs.engine.Engine`."""
        ray = self._ray
        if gpus > self._ray.cluster_resources().get("GPU", 0):  # Ray would wait for one, for ever
            raise EngineError("the Ray cluster has no GPU; device='cpu' computes without one")
        remote = ray.remote(_call).options(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
        places = carried()
        constants = ray.put((work, shared, places))
        waiting: dict[Any, int] = {}
        numbered = enumerate(tasks)
        # Where this ends early, tasks in flight are left to finish; nobody waits for them, as in
        # LocalEngine: with ray.cancel a task that ends at that moment aborts this process (Ray
        # 2.60: "Check failed: it != submissible_tasks_.end()").
        while True:
            # Asked each time: a cluster may grow.
            while len(waiting) < AHEAD * self.workers and (pair := next(numbered, None)):
                waiting[remote.remote(constants, pair[1])] = pair[0]
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for one in ready:
                yield waiting.pop(one), _result(ray, one)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leaves the cluster, unless somebody else had entered it."""
        if self._own:
            self._ray.shutdown()


def _knock(address: str) -> None:
    """An error where nobody listens: Ray itself would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _call(constants: tuple[Callable[[Any, Any], Any], Any, dict[str, str]], task: Any) -> Any:
    """A task, in a process of the cluster."""
    work, shared, places = constants
    os.environ.update(places)
    return work(shared, task)


def _result(ray: Any, one: Any) -> Any:
    try:
        return ray.get(one)
    except ray.exceptions.RayTaskError as error:
        # The task's own error, as if it had been done here; Ray's would be a page of traceback.
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise EngineError(
            f"a task was lost with its worker {RETRIES + 1} times: {reason}; finished tasks "
            "are kept, and the same command resumes"
        ) from error


def _ray() -> Any:
    # Ray counts its users over the network by default, and takes it amiss if tasks
    # that need no GPU are to see none.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise ImportError("the engine 'ray' needs Ray: pip install 'torch-legs[ray]'") from error
    return ray
