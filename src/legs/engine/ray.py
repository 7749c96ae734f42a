"""The engine of a Ray cluster; nothing else imports Ray.

Ray's tasks, not Ray Data: a task has the same number in every run, so that finished ones are not
repeated after an interruption. The number of tasks in flight is bounded.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from legs.engine import AHEAD, Engine, EngineError, R, call, inherited_environment

# A task whose worker or node died is repeated so often; then the task is to blame.
RETRIES = 20


class RayEngine(Engine):
    """Tasks on the nodes of a Ray cluster, one core each.

    Every node needs torch-legs in the same version, and the folders of input and output under the
    same paths. The tasks of a worker or node that dies are repeated elsewhere. The node of this
    process must live.

    Args:
        address: ``"HOST:PORT"`` or ``"auto"`` (default: ``$RAY_ADDRESS``, a cluster that runs here,
            or one that is started on this machine, and ends with the ``with`` block).
        options: of ``ray.init``, such as ``num_cpus`` for a cluster that is started here.
    """

    def __init__(self, address: str | None = None, **options: Any) -> None:
        # No statistics of use over the network, and no complaint where tasks need no GPU.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError as error:
            message = "the engine 'ray' needs Ray: pip install 'torch-legs[ray]'"
            raise ImportError(message) from error
        self._ray: Any = ray
        self._own = not ray.is_initialized()
        if not self._own:
            return
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
        try:
            # Where nobody listens, Ray itself would try for many minutes.
            place = (address or os.environ.get("RAY_ADDRESS", "")).removeprefix("ray://")
            host, colon, port = place.rpartition(":")
            if colon and port.isdigit():
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            self._ray.init(address=address, **quiet, **options)
        except (OSError, RuntimeError, ValueError) as error:
            raise EngineError(
                f"no Ray cluster at {address or 'this machine'}: {_shorten(error)}; `ray status` "
                "lists those that run, `ray start --head` starts one"
            ) from error

    @property
    def workers(self) -> int:
        """Cores of the cluster, which may change while it works."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(
        self, work: Callable[[Any, Any], R], shared: Any, tasks: Iterable[Any], *, gpus: float = 0
    ) -> Iterator[tuple[int, R]]:
        ray = self._ray
        if gpus > ray.cluster_resources().get("GPU", 0):  # Ray would wait for one forever
            raise EngineError("the Ray cluster has no GPU; device='cpu' computes without one")
        remote = ray.remote(call).options(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
        job = ray.put((work, shared, inherited_environment(), None))
        numbered = enumerate(tasks)
        waiting: list[Any] = []
        # If this ends early, tasks in flight are left to finish: a task that ends at the moment of
        # ray.cancel aborts this process (Ray 2.60: "Check failed: it != submissible_tasks_.end()").
        while True:
            # Checked each time: a cluster may grow.
            while len(waiting) < AHEAD * self.workers and (pair := next(numbered, None)):
                waiting.append(remote.remote(job, *pair))
            if not waiting:
                return
            ready, waiting = ray.wait(waiting, num_returns=1)
            yield self._result(ready[0])

    def _result(self, reference: Any) -> tuple[int, Any]:
        errors = self._ray.exceptions
        try:
            result: tuple[int, Any] = self._ray.get(reference)
            return result
        except errors.RayTaskError as error:
            # The task's own error, as if it had run here; Ray's would be a page of traceback.
            if isinstance(error.cause, Exception):
                raise error.cause from error
            raise
        except errors.RayError as error:
            raise EngineError(
                f"a task was lost with its worker {RETRIES + 1} times: {_shorten(error)}; finished "
                "tasks are kept, and the same command resumes"
            ) from error

    def __exit__(self, *error: object) -> None:
        """Leaves the cluster, unless it was entered before."""
        if self._own:
            self._ray.shutdown()


def _shorten(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
