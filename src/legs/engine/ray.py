"""The engine of a Ray cluster; nothing else imports Ray.

Ray's tasks, not Ray Data: a task has the same number in every run, so that finished ones are not
repeated after an interruption. The number of tasks in flight is bounded.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from legs.engine.local import AHEAD, Engine, EngineError, R, S, T, inherited_environment

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
        self._ray = _import_ray()
        self._own = not self._ray.is_initialized()
        if not self._own:
            return
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
        try:
            _check_reachable(address or os.environ.get("RAY_ADDRESS", ""))
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
        self, work: Callable[[S, T], R], shared: S, tasks: Iterable[T], *, gpus: float = 0
    ) -> Iterator[tuple[int, R]]:
        """See :class:`legs.engine.Engine`."""
        ray = self._ray
        if gpus > ray.cluster_resources().get("GPU", 0):  # Ray would wait for one forever
            raise EngineError("the Ray cluster has no GPU; device='cpu' computes without one")
        remote = ray.remote(_call).options(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
        constants = ray.put((work, shared, inherited_environment()))
        waiting: dict[Any, int] = {}
        numbered = enumerate(tasks)
        # If this ends early, tasks in flight are left to finish: a task that ends at the moment of
        # ray.cancel aborts this process (Ray 2.60: "Check failed: it != submissible_tasks_.end()").
        while True:
            # Checked each time: a cluster may grow.
            while len(waiting) < AHEAD * self.workers and (pair := next(numbered, None)):
                waiting[remote.remote(constants, pair[1])] = pair[0]
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(ready[0]), _result(ray, ready[0])

    def __exit__(self, *error: object) -> None:
        """Leaves the cluster, unless it was entered before."""
        if self._own:
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """An error where nobody listens: Ray itself would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _call(constants: tuple[Callable[[Any, Any], Any], Any, dict[str, str]], task: Any) -> Any:
    work, shared, variables = constants
    os.environ.update(variables)
    return work(shared, task)


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        # The task's own error, as if it had run here; Ray's would be a page of traceback.
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"a task was lost with its worker {RETRIES + 1} times: {_shorten(error)}; finished "
            "tasks are kept, and the same command resumes"
        ) from error


def _shorten(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _import_ray() -> Any:
    # No statistics of use over the network, and no complaint where tasks need no GPU.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise ImportError("the engine 'ray' needs Ray: pip install 'torch-legs[ray]'") from error
    return ray
