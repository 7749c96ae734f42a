"""One model on many devices: each process computes a part of every batch."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from legs.models import Network
from legs.nn.batch_norm import synchronized
from legs.training.inputs import Reader, predict

# What torchrun, and every other launcher of PyTorch's, tells the processes it starts.
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# What ours tells in place of the last two: the address of a file where processes find each other.
MEETING = "LEGS_MEETING"

# The newer of two names, which older versions of PyTorch do not know.
_KNOWN = inspect.signature(DistributedDataParallel.__init__).parameters
_COPIES = "forward_sync_buffers" if "forward_sync_buffers" in _KNOWN else "broadcast_buffers"

Forward = Callable[[Tensor, Tensor | None], Tensor]


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

        A batch may have fewer graphs than there are processes; those that are left without one
        compute the first and leave it out of all sums, since others wait for them.
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

    def first(self, *numbers: float) -> tuple[float, ...]:
        """The numbers of process 0, so that all decide alike."""
        if self.size == 1:
            return numbers
        told = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.broadcast(told, 0)
        return tuple(told.tolist())

    def share(self, content: bytes) -> bytes:
        """The bytes of process 0; what the others give plays no role."""
        (size,) = self.first(len(content))
        if self.size == 1 or not size:
            return content if self.size == 1 else b""
        told = torch.empty(int(size), dtype=torch.uint8, device=self.device)
        if self.rank == 0:
            told.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        dist.broadcast(told, 0)
        return told.cpu().numpy().tobytes()

    def agree(self, content: bytes, what: str) -> None:
        """Raises ``ValueError`` in processes that have other bytes than process 0."""
        if self.share(content) != content:
            raise ValueError(f"process {self.rank} has other {what} than process 0")

    @contextmanager
    def training(self, network: Network, inputs: Reader) -> Iterator[Forward]:
        """What computes outputs from graphs and a mask; gradients are means over all processes."""
        if self.size == 1:
            yield lambda index, mask: inputs(network, index, mask)
            return
        ids = [self.device.index] if self.device.type == "cuda" else None
        # Buffers need no copies: synchronised batch norms have the same everywhere.
        still: dict[str, Any] = {_COPIES: False}
        parallel = DistributedDataParallel(
            _Whole(network, inputs), ids, gradient_as_bucket_view=True, **still
        )
        with synchronized(network):
            yield parallel

    def predict(self, inputs: Reader, network: Network, index: Tensor, batch_size: int) -> Tensor:
        """Outputs for the graphs ``index``; each process computes some, and all get all."""
        if self.size == 1:
            return predict(inputs, network, index, batch_size)
        parts = index.tensor_split(self.size)
        mine, start = parts[self.rank], sum(map(len, parts[: self.rank]))
        out = predict(inputs, network, mine if len(mine) else index[:1], batch_size)
        every = out.new_zeros(len(index), out.shape[1])
        every[start : start + len(mine)] = out[: len(mine)]
        dist.all_reduce(every)
        return every


ALONE = Group()


class _Whole(nn.Module):
    """A network with its inputs: DistributedDataParallel calls ``forward`` and nothing else."""

    def __init__(self, network: Network, inputs: Reader) -> None:
        super().__init__()
        self.network = network
        self.inputs = inputs

    def forward(self, index: Tensor, mask: Tensor | None) -> Tensor:
        return self.inputs(self.network, index, mask)


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
    if not launched() and not (dist.is_available() and dist.is_initialized()):
        yield Group(device=torch.device(device))
        return
    place = torch.device(device)
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
        # Others that wait for this process find out now, not when time is up. NCCL would itself
        # wait for what an error left undone; there the end of the process tells them.
        begun = ours and dist.is_initialized()
        if begun and (place.type == "cpu" or sys.exc_info()[0] is None):
            dist.destroy_process_group()
