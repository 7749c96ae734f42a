"""One model on many devices: each process computes a part of every batch."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing import (  # type: ignore[attr-defined]
    ProcessExitedException,
    ProcessRaisedException,
    start_processes,
)

from legs.engine import end_with
from legs.models import Network
from legs.nn.batch_norm import synchronized

# Environment variables that torchrun, and every other launcher of PyTorch's, sets.
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# What launch() sets in place of the last two: the address of a file where processes meet.
MEETING = "LEGS_MEETING"
# Seconds that the others have to end after one.
GRACE = 5.0
# A process that has used CUDA cannot be forked.
START = "spawn"

T = TypeVar("T")


class PeerError(RuntimeError):
    """Another process of the same training ended or cannot be reached."""


@dataclass(frozen=True)
class Group:
    """The processes that train one model together; by default one, alone.

    Args:
        rank: number of this process. Process 0 writes and reports.
        size: number of processes.
        device: of this process.

    >>> Group().part(torch.arange(3))
    (tensor([0, 1, 2]), None)
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def part(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """This process's graphs of a batch, and a mask where they must not count.

        A process without one computes the first and leaves it out of all sums: others wait for it.
        """
        if self.size == 1:
            return index, None
        mine = index.tensor_split(self.size)[self.rank]
        return (mine, None) if len(mine) else (index[:1], index.new_zeros(1, dtype=torch.bool))

    def sum(self, part: Tensor) -> Tensor:
        """The sum over all processes, not to be differentiated."""
        if self.size == 1:
            return part
        total = part.detach().clone()
        dist.all_reduce(total)
        return total

    def broadcast(self, value: T) -> T:
        """The value of process 0, in all processes."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, 0, device=self.device)
        return values[0]

    def agree(self, value: Any, what: str) -> None:
        """Raises ``ValueError`` in processes that have another value than process 0."""
        if self.broadcast(value) != value:
            raise ValueError(f"process {self.rank} has other {what} than process 0")

    @contextmanager
    def training(self, network: Network) -> Iterator[None]:
        """All begin with the weights of process 0; inside, batch norm sees whole batches."""
        if self.size == 1:  # others may train models of their own
            yield
            return
        for tensor in network.state_dict().values():
            dist.broadcast(tensor, 0)
        with synchronized(network):
            yield

    def sum_gradients(self, network: Network) -> None:
        """Adds the gradients of all processes up."""
        if self.size > 1:
            gradients = [p.grad for p in network.parameters() if p.grad is not None]
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            dist.all_reduce(flat)
            torch.nn.utils.vector_to_parameters(flat, gradients)


ALONE = Group()


def launched() -> bool:
    """Whether this process was started, with others, by ``torchrun`` or the like."""
    return MEETING in os.environ or all(name in os.environ for name in VARIABLES)


@contextmanager
def joined(device: str = "cpu") -> Iterator[Group]:
    """The group of this process: those that ``torchrun`` started with it, or itself alone.

    Args:
        device: ``"cpu"`` or ``"cuda"``, where each process of a machine takes a GPU of its own.

    >>> with joined() as group:
    ...     group.rank, group.size
    (0, 1)
    """
    place = torch.device(device)
    if not launched() and not (dist.is_available() and dist.is_initialized()):
        yield Group(device=place)
        return
    if place.type == "cuda":
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(place)
    ours = not dist.is_initialized()
    try:
        if ours:
            rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            where = os.environ.get(MEETING, "env://")
            backend = "nccl" if place.type == "cuda" else "gloo"
            dist.init_process_group(backend, where, rank=rank, world_size=size)
        yield Group(dist.get_rank(), dist.get_world_size(), place)
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error).lower():
            raise PeerError(f"another process of this training ended: {error}") from error
        raise
    finally:
        # Others that wait for this process notice now, not at their time limit. NCCL would itself
        # wait for what an error left undone; there they notice the end of the process.
        begun = ours and dist.is_initialized()
        if begun and (place.type == "cpu" or sys.exc_info()[0] is None):
            dist.destroy_process_group()


def processes_to_start(device: str, devices: int) -> int:
    """How many processes a command has to start for ``devices``; one under ``torchrun``."""
    if launched():
        size = int(os.environ["WORLD_SIZE"])
        if devices not in (1, size):
            raise ValueError(f"{size} processes were started, but devices={devices}")
        return 1
    if device == "cuda" and devices > (there := torch.cuda.device_count()):
        raise ValueError(f"devices={devices}, but PyTorch finds {there} GPUs here")
    return devices


def launch(processes: int, work: Callable[..., None], arguments: Mapping[str, Any]) -> None:
    """Calls a function in so many processes at once, which find each other as under ``torchrun``.

    Output of process 0 goes where ours goes; the others are silent. All end well, or all end: an
    error of one is raised here, as ``ValueError`` if it is one for people, else ``RuntimeError``.
    """
    errors = get_context(START).SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="legs-train-", ignore_cleanup_errors=True) as folder:
        own = (processes, folder, errors, work, dict(arguments))
        running = start_processes(_work, own, processes, False, True, START)
        try:
            while not running.join(grace_period=GRACE):
                pass
        except (ProcessExitedException, ProcessRaisedException) as ended:
            if errors.empty():
                why = "; it may have been short of memory" if "SIGKILL" in str(ended) else ""
                raise RuntimeError(f"{ended}{why}") from None
            error, trace = errors.get()
            error.add_note(trace)
            raise error from None
        finally:
            for process in running.processes:
                process.kill()
                process.join()


def _work(
    rank: int,
    size: int,
    folder: str,
    errors: SimpleQueue[tuple[Exception, str]],
    work: Callable[..., None],
    arguments: dict[str, Any],
) -> None:
    end_with(os.getppid())  # one that was killed cannot; the run would stay locked
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    # A file, not a port, which another program might take meanwhile.
    os.environ[MEETING] = Path(folder, "meeting").as_uri()
    if sys.platform == "linux":  # what stays on the machine does not need its host name
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max((os.cpu_count() or 1) // size, 1))
    if rank:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    try:
        work(**arguments)
    except Exception as error:
        trace, text = traceback.format_exc()[-20_000:], " ".join(str(error).split())[:2_000]
        peer = isinstance(error, PeerError)
        plain = isinstance(error, ValueError | OSError | ImportError)
        if peer:
            time.sleep(2 * GRACE)  # that the other process reports what was wrong
        kind = PeerError if peer else ValueError if plain else RuntimeError
        # Not the error itself: not all can be sent.
        errors.put((kind(text if peer or plain else f"{type(error).__name__}: {text}"), trace))
        sys.exit(1)
