"""The CUDA kernels without a GPU: compiled by the C++ compiler, threads of a block taking turns.

Slow, but the same source and the same code around it: what is wrong here is wrong on a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import re
import shutil
import subprocess
from functools import partial

import torch

from legs.kernels.gpu import launch, scattering

SHIM = """
#include <ucontext.h>

#include <cmath>
#include <functional>
#include <vector>
#define __device__
#define __forceinline__ inline
#define __global__ static
#define __restrict__
#define __launch_bounds__(...)
using std::exp;
using std::fabs;
using std::sqrt;
struct Place { int x; };
// The threads of a block take turns: each runs until it has to wait for others.
struct Barrier {
    int needed = 0, arrived = 0, generation = 0;
};
static int current, alive;
static Place places[1024], blockIdx, blockDim, gridDim;
static ucontext_t contexts[1024], outside;
static bool done[1024];
static Barrier all, warps[32];
static char* shared_memory;
static double exchanged[1024];
static std::function<void()> body;
#define threadIdx places[current]
static void next_thread() {
    const int before = current;
    do current = (current + 1) % blockDim.x;
    while (done[current] && current != before);
    if (current != before) swapcontext(&contexts[before], &contexts[current]);
}
static void wait_at(Barrier& barrier) {
    const int generation = barrier.generation;
    if (++barrier.arrived == barrier.needed) {
        barrier.arrived = 0;
        ++barrier.generation;
    } else {
        while (barrier.generation == generation) next_thread();
    }
}
static void __syncthreads() { wait_at(all); }
static void __syncwarp() { wait_at(warps[current / 32]); }
template <class T> T exchange(T value, int from) {
    exchanged[current] = value;
    __syncwarp();
    T other = exchanged[from];
    __syncwarp();
    return other;
}
template <class T> T __shfl_xor_sync(unsigned, T value, int k) {
    return exchange(value, current ^ k);
}
static void run_thread() {
    body();
    done[current] = true;
    if (--alive) next_thread();
    else setcontext(&outside);
}
static void launch(int blocks, int threads, int shared, std::function<void()> kernel) {
    constexpr int stack = 1 << 17;
    std::vector<char> memory(shared + 64), stacks(size_t(threads) * stack);
    shared_memory = memory.data();
    body = kernel;
    blockDim.x = threads;
    gridDim.x = blocks;
    for (int b = 0; b < blocks; ++b) {
        blockIdx.x = b;
        memory.assign(memory.size(), char(0xff));  // not numbers: nobody may count on what is there
        all = {threads};
        for (int k = 0; k < threads / 32; ++k) warps[k] = {32};
        for (int t = 0; t < threads; ++t) {
            places[t].x = t;
            done[t] = false;
            getcontext(&contexts[t]);
            contexts[t].uc_stack.ss_sp = stacks.data() + size_t(t) * stack;
            contexts[t].uc_stack.ss_size = stack;
            contexts[t].uc_link = nullptr;
            makecontext(&contexts[t], run_thread, 0);
        }
        alive = threads;
        current = 0;
        swapcontext(&outside, &contexts[0]);
    }
}
"""


def available():
    return shutil.which("g++") is not None


class Kernel:
    """A kernel as ``launch.Kernel``, with tensors on the CPU."""

    def __init__(self, folder, source, name, device, shared=None):
        arguments = re.search(name + r"\(([^)]*)\)", source).group(1).split(",")
        kinds = [" ".join(a.split()) for a in arguments]
        types = [re.sub(r"\b\w+$", "", kind).strip() for kind in kinds]
        casts = ", ".join(
            f"({kind})given[{k}]" if "*" in kind else f"*({kind}*)given[{k}]"
            for k, kind in enumerate(types)
        )
        text = source.replace("extern __shared__ char raw[];", "char* raw = shared_memory;")
        text = text.replace("__shared__ ", "static ").replace('extern "C" ', "")
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
            # Without unique symbols: kernels of other sizes must not share what is static.
            command = ["g++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-fno-gnu-unique"]
            subprocess.run(
                [*command, "-x", "c++", "-", "-o", path], input=text.encode(), check=True
            )
        self.library = ctypes.CDLL(str(path))
        self.kinds = types
        self.most = shared or 48 * 1024

    def __call__(self, blocks, threads, arguments, shared=0):
        assert shared <= self.most
        kept = []
        for kind, value in zip(self.kinds, arguments, strict=True):
            if isinstance(value, torch.Tensor):
                assert value.is_contiguous()
                kept.append(ctypes.c_void_p(value.data_ptr() or None))
            elif value is None:
                kept.append(ctypes.c_void_p())
            else:
                number = ctypes.c_double(value) if kind == "double" else ctypes.c_int(value)
                kept.append(number)
        given = (ctypes.c_void_p * len(kept))(
            *(k.value if isinstance(k, ctypes.c_void_p) else ctypes.addressof(k) for k in kept)
        )
        self.library.run(blocks, threads, shared, given)


@contextlib.contextmanager
def emulated(monkeypatch, folder):
    """Inside, ``legs.kernels.gpu`` compiles for the CPU and takes tensors there."""
    monkeypatch.setattr(launch, "Kernel", partial(Kernel, folder))
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(launch, "max_shared", lambda device: 200 * 1024)
    monkeypatch.setattr(launch, "applies", lambda x: x.dtype in launch.TYPES)
    caches = (launch.compiled, scattering._plan)
    for cache in caches:
        cache.cache_clear()
    try:
        yield
    finally:
        for cache in caches:
            cache.cache_clear()
