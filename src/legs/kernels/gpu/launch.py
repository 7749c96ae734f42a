"""Kernels compiled at run time, and their launches.

PyTorch includes the run-time compiler; no toolkit is needed. Its own call of a kernel wraps every
argument separately, which takes longer than small kernels run; here they are packed together.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

TYPES = {torch.float32: "float", torch.float64: "double"}
MAX_SHARED = 224 * 1024  # bytes per block, where the GPU has as many


@cache
def available() -> bool:
    """Whether kernels can be compiled: a CUDA device, and PyTorch's run-time compiler."""
    if not torch.cuda.is_available() or torch.version.hip:
        return False
    try:
        Kernel('extern "C" __global__ void nothing() {}', "nothing", torch.cuda.current_device())
    except Exception:  # whatever is missing, the reference serves
        return False
    return True


def applies(x: Tensor) -> bool:
    """Whether there are kernels for the device and the type of ``x``."""
    return x.device.type == "cuda" and x.dtype in TYPES and available()


@cache
def max_shared(device: int) -> int:
    """Bytes of shared memory that a block may have: GPUs for desktops have less than others."""
    properties = torch.cuda.get_device_properties(device)
    return min(MAX_SHARED, int(getattr(properties, "shared_memory_per_block_optin", 48 * 1024)))


def run(
    part: str,
    name: str,
    like: Tensor,
    blocks: int,
    threads: int,
    args: list[Any],
    shared: int = 0,
    **constants: Any,
) -> None:
    """Runs a kernel of ``sources/{part}.cu`` on the device of ``like``, compiled for its type.

    ``args`` are tensors (those that are written to contiguous), ``None`` for null pointers,
    integers (``int`` in the kernel) and floats (``double`` there); ``shared`` are bytes of shared
    memory per block; ``constants`` are defined in front of the source, and ``THREADS`` too.
    """
    device, defined = like.device.index, (("THREADS", threads), *constants.items())
    most = max_shared(device) if shared else None
    kernel = compiled(part, name, like.dtype, device, defined, most)
    args = [arg.contiguous() if isinstance(arg, Tensor) else arg for arg in args]
    with torch.cuda.device(device):
        kernel(blocks, threads, args, shared)


@cache
def compiled(
    part: str,
    name: str,
    dtype: torch.dtype,
    device: int,
    constants: tuple[tuple[str, Any], ...],
    shared: int | None = None,
) -> Kernel:
    """A kernel of ``sources/{part}.cu``; ``shared``: bytes per block, if above 48 KiB."""
    source = "".join(f"#define {key} {value}\n" for key, value in constants)
    source += f"#define real {TYPES[dtype]}\n"
    folder = files("legs.kernels.gpu").joinpath("sources")
    source += "".join(folder.joinpath(file).read_text() for file in ("common.cuh", f"{part}.cu"))
    return Kernel(source, name, device, shared)


class Kernel:
    """A compiled kernel."""

    def __init__(self, source: str, name: str, device: int, shared: int | None = None) -> None:
        self.device = device
        with torch.cuda.device(device):
            torch.cuda.synchronize()  # gives a new thread the context of the device
            kernel = torch.cuda._compile_kernel(source, name)
            if shared is not None:
                kernel.set_shared_memory_config(shared)
        self.function = kernel.func  # what the driver launches
        self.context = ctypes.c_void_p()  # of the device in this thread
        _check(_driver()[0].cuCtxGetCurrent(ctypes.byref(self.context)))

    def __call__(self, blocks: int, threads: int, args: list[Any], shared: int = 0) -> None:
        """Launches it on the current stream of its device, which must be the current device."""
        if not blocks:
            return
        # Eight bytes for each: GPUs are little-endian, so an int is in the first four.
        values = (ctypes.c_int64 * len(args))(*map(_eight_bytes, args))
        first = ctypes.addressof(values)
        places = (ctypes.c_int64 * len(args))(*range(first, first + 8 * len(args), 8))
        stream = torch._C._cuda_getCurrentRawStream(self.device)
        driver, launch = _driver()
        # A thread, such as autograd's, may not have used the GPU yet.
        _check(driver.cuCtxSetCurrent(self.context))
        grid = (blocks, 1, 1, threads, 1, 1)
        _check(launch(self.function, *grid, shared, stream, ctypes.addressof(places), None))


def _check(status: int) -> None:
    if status:
        torch.cuda._utils._check_cuda(status)


def _eight_bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.data_ptr()
    if isinstance(value, float):
        (value,) = struct.unpack("q", struct.pack("d", value))
    return int(value or 0)


@cache
def _driver() -> tuple[Any, Any]:
    """The driver, and its function that launches kernels."""
    driver = torch.cuda._utils._get_gpu_runtime_library()
    # By its name in brackets it is an object of our own: PyTorch's has other types of arguments.
    launch = driver["cuLaunchKernel"]
    number, pointer = ctypes.c_uint, ctypes.c_void_p
    launch.argtypes = [pointer, *[number] * 7, pointer, pointer, pointer]
    launch.restype = ctypes.c_int
    return driver, launch
