"""The CUDA kernels without a GPU: compiled by the C++ compiler, threads of a block as threads.

Slow, but the same source and the same code around it: what is wrong here is wrong on a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import re
import shutil
import subprocess

import torch

from legs.kernels import cuda

SHIM = """
#include <barrier>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <vector>
#define __device__
#define __global__ static
#define __restrict__
#define __launch_bounds__(...)
using std::fabs;
using std::sqrt;
struct Place { int x; };
static thread_local Place threadIdx, blockIdx;
static Place blockDim;
static char* shared_memory;
static std::unique_ptr<std::barrier<>> all;
static std::vector<std::unique_ptr<std::barrier<>>> warps;
static double exchanged[1024];
static void __syncthreads() { all->arrive_and_wait(); }
static void __syncwarp() { warps[threadIdx.x / 32]->arrive_and_wait(); }
template <class T> T __shfl_xor_sync(unsigned, T value, int k) {
    exchanged[threadIdx.x] = value;
    __syncwarp();
    T other = exchanged[threadIdx.x ^ k];
    __syncwarp();
    return other;
}
static void launch(int blocks, int threads, int shared, std::function<void()> kernel) {
    blockDim.x = threads;
    std::vector<char> memory(shared + 64);
    shared_memory = memory.data();
    all = std::make_unique<std::barrier<>>(threads);
    warps.clear();
    for (int k = 0; k < threads / 32; ++k) warps.push_back(std::make_unique<std::barrier<>>(32));
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t)
        workers.emplace_back([=] {
            threadIdx.x = t;
            for (int b = 0; b < blocks; ++b) {
                blockIdx.x = b;
                kernel();
                __syncthreads();
            }
        });
    for (auto& worker : workers) worker.join();
}
"""


def available():
    return shutil.which("g++") is not None


class Kernel:
    """Takes what PyTorch's compiled kernels take, with tensors on the CPU."""

    def __init__(self, source, name, folder):
        arguments = re.search(name + r"\(([^)]*)\)", _expand(source)).group(1).split(",")
        kinds = [" ".join(a.split()) for a in arguments]
        types = [re.sub(r"\b\w+$", "", kind).strip() for kind in kinds]
        casts = ", ".join(
            f"({kind})given[{k}]" if "*" in kind else f"*({kind}*)given[{k}]"
            for k, kind in enumerate(types)
        )
        text = source.replace("extern __shared__ char raw[];", "char* raw = shared_memory;")
        text = text.replace("__shared__ real", "static real").replace('extern "C" ', "")
        text = (
            SHIM
            + text
            + (
                'extern "C" void run(int blocks, int threads, int shared, void** given) {'
                f" launch(blocks, threads, shared, [=] {{ {name}({casts}); }}); }}"
            )
        )
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"
        if not path.exists():
            command = ["g++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread"]
            subprocess.run(
                [*command, "-x", "c++", "-", "-o", path], input=text.encode(), check=True
            )
        self.library = ctypes.CDLL(str(path))
        self.kinds = types

    def set_shared_memory_config(self, size):
        self.most = size

    def __call__(self, grid, block, arguments, shared=0):
        assert shared <= self.most
        kept = []
        for kind, value in zip(self.kinds, arguments, strict=True):
            if isinstance(value, torch.Tensor):
                assert value.is_contiguous()
                kept.append(ctypes.c_void_p(value.data_ptr() or None))
            else:
                number = ctypes.c_double(value) if kind == "double" else ctypes.c_int(value)
                kept.append(number)
        given = (ctypes.c_void_p * len(kept))(
            *(k.value if isinstance(k, ctypes.c_void_p) else ctypes.addressof(k) for k in kept)
        )
        self.library.run(grid[0], block[0], shared, given)


def _expand(source):
    found = re.search(r"#define ARGUMENTS (.*?)(?<!\\)\n", source, re.S)
    if found is None:
        return source
    return source.replace("(ARGUMENTS", "(" + found.group(1).replace("\\\n", " "))


@contextlib.contextmanager
def emulated(monkeypatch, folder):
    """Inside, ``legs.kernels.cuda`` compiles for the CPU and takes tensors there."""
    monkeypatch.setattr(
        torch.cuda, "_compile_kernel", lambda source, name: Kernel(source, name, folder)
    )
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(cuda, "most_shared", lambda device: 64 * 1024)
    cuda._compiled.cache_clear()
    try:
        yield
    finally:
        cuda._compiled.cache_clear()
