"""Kernels compiled at run time for NVIDIA GPUs, and their launches.

PyTorch brings the run-time compiler along; no tool kit is needed. Its own call of a kernel wraps
every argument by itself, which takes longer than small kernels run; here they are packed together.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

NO_CONTEXT = 201  # the driver's number for it
TYPES = {torch.float32: "float", torch.float64: "double"}


def source_of(name: str) -> str:
    """The text of a file in ``sources/``."""
    return files("legs.kernels").joinpath("sources", name).read_text()


class Kernel:
    """A compiled kernel, to be called.

    Args:
        sources: files in ``sources/``, one after another.
        name: of the function in them.
        device: index of the GPU.
        constants: defined in front of them.
        shared: bytes of shared memory that a block may have (default: what any may).
    """

    def __init__(
        self,
        sources: tuple[str, ...],
        name: str,
        device: int,
        constants: Mapping[str, object],
        shared: int | None = None,
    ) -> None:
        source = "".join(f"#define {key} {value}\n" for key, value in constants.items())
        source += "".join(source_of(part) for part in sources)
        self.device = device
        with torch.cuda.device(device):
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # gives a new thread the context of the device
            self.compiled: Any = torch.cuda._compile_kernel(source, name)
            if shared is not None:
                self.compiled.set_shared_memory_config(shared)
        # How PyTorch names what the driver launches; where it is called otherwise, its call serves.
        self.function: Any = getattr(self.compiled, "func", None)
        self.context = _context() if self.function is not None else None

    def __call__(self, blocks: int, threads: int, given: list[Any], shared: int = 0) -> None:
        """Launches it on the current stream of its device, which has to be the current one.

        Args:
            blocks: how many; none is fine.
            threads: of a block.
            given: tensors (contiguous, on the device), integers (``int`` in the kernel) and floats
                (``double`` there).
            shared: bytes of dynamic shared memory (default 0).
        """
        if not blocks:
            return
        if self.function is None:
            self.compiled((blocks, 1, 1), (threads, 1, 1), given, shared)
            return
        # Eight bytes for each: the GPU has its smaller end first, so that an int lies in front.
        values = (ctypes.c_int64 * len(given))(*map(_eight_bytes, given))
        first = ctypes.addressof(values)
        places = (ctypes.c_int64 * len(given))(*range(first, first + 8 * len(given), 8))
        stream = torch._C._cuda_getCurrentRawStream(self.device)
        size = (blocks, 1, 1, threads, 1, 1)
        launch, all_of_it = _launch(), (*size, shared, stream, ctypes.addressof(places), None)
        found = launch(self.function, *all_of_it)
        if found == NO_CONTEXT:  # a thread, such as autograd's, that has not used the GPU yet
            torch.cuda._utils._check_cuda(_driver().cuCtxSetCurrent(self.context))
            found = launch(self.function, *all_of_it)
        if found:
            torch.cuda._utils._check_cuda(found)


def _eight_bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.data_ptr()
    if isinstance(value, float):
        (bits,) = struct.unpack("q", struct.pack("d", value))
        return int(bits)
    return int(value)


@cache
def _driver() -> Any:
    return torch.cuda._utils._get_gpu_runtime_library()


@cache
def _launch() -> Any:
    """The driver's function that launches kernels."""
    # By its name in brackets it is an object of our own: PyTorch's has other types of arguments.
    launch = _driver()["cuLaunchKernel"]
    number, pointer = ctypes.c_uint, ctypes.c_void_p
    launch.argtypes = [pointer, *[number] * 6, number, pointer, pointer, pointer]
    launch.restype = ctypes.c_int
    return launch


def _context() -> ctypes.c_void_p:
    """The context of the current device in this thread."""
    found = ctypes.c_void_p()
    torch.cuda._utils._check_cuda(_driver().cuCtxGetCurrent(ctypes.byref(found)))
    return found
