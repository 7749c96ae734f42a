"""A step recorded once on the GPU and replayed: what is left when nothing is launched by Python."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from benchmarks.speed.timing import Run, wait

WARM_UP = 3


@dataclass(frozen=True)
class Recorded:
    """A recording, and the tensors it writes to, which must live as long."""

    graph: torch.cuda.CUDAGraph
    written: object

    def __call__(self) -> None:
        """Replays it."""
        self.graph.replay()


def record(step: Run, device: torch.device) -> Recorded | None:
    """Records a step in a CUDA graph; ``None`` where it cannot be, or there is no GPU.

    A step that looks at its results on the CPU, or chooses shapes by them, cannot be recorded.
    """
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        # On a stream of its own first: libraries set themselves up on first use, and what they
        # allocate then must not end up in the recording.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    step()
            torch.cuda.current_stream().wait_stream(stream)
            wait(device)
            with torch.cuda.graph(graph):
                written = step()
        except RuntimeError:  # memory may also run out: a recording keeps its own
            _recover(device)
            return None
        wait(device)
    return Recorded(graph, written)


def _recover(device: torch.device) -> None:
    # The failed call may report itself once more when the GPU is waited for.
    try:
        wait(device)
    except RuntimeError:
        wait(device)
