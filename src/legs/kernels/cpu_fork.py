"""Compiled code run by the threads of PyTorch.

PyTorch's OpenMP threads stay awake for a while after their last work: to start them takes about a
microsecond. To wake a sleeping thread can take longer than a whole batch of small graphs does. They
are had where PyTorch uses GNU's OpenMP, as its packages for Linux do; elsewhere, and in a process
that was forked from one that had started them, :mod:`legs.kernels.cpu_threads` serves.

Importing this module imports numba.
"""

from __future__ import annotations

import ctypes
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types

from legs.kernels.cpu_vectors import intrinsic

NOWHERE = (0, 0, 0)
_NAMES = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
_forked = False
# Processes in line for a core from which on threads do not pay, and how old that number may be.
BUSY_FROM, SECONDS = 1.5, 1.0
_looked, _busy = 0.0, False


def addresses() -> tuple[int, int, int]:
    """Where the functions of OpenMP are; zeros if they cannot be used.

    >>> len(addresses())
    3
    """
    return NOWHERE if _forked else _found()


@cache
def _found() -> tuple[int, int, int]:
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        loaded = ctypes.CDLL(str(library))  # it has been loaded: this only finds it
        first, second, third = (
            ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value or 0 for name in _NAMES
        )
    except (OSError, AttributeError):  # another system, or another OpenMP
        return NOWHERE
    return first, second, third


def busy() -> bool:
    """Whether so many processes want the machine's cores that a second thread would have to wait.

    Threads that wait awake for one that the system has put aside burn the time it needs.

    >>> busy() in (True, False)
    True
    """
    global _looked, _busy
    now = time.monotonic()
    if now - _looked > SECONDS and hasattr(os, "getloadavg"):
        _looked, _busy = now, os.getloadavg()[0] > BUSY_FROM * (os.cpu_count() or 1)
    return _busy


def _forget() -> None:
    """A child process has none of its parent's threads, and OpenMP does not know."""
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@intrinsic
def fork(typing: Any, places: Any, threads: Any, function: Any, arguments: Any) -> Any:
    """Has threads call ``function(*arguments, number of the thread, number of threads)``.

    Args:
        places: :func:`addresses`.
        threads: how many are asked for; there may be fewer.
        function: compiled, with arguments that no thread may throw away; it must not raise.
        arguments: a tuple.
    """
    if not isinstance(function, types.Dispatcher):
        return None
    call: Any = function.get_call_type(typing, (*arguments.types, types.intp, types.intp), {})

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        compiled = function.dispatcher.overloads[call.args]
        context.add_linking_libs([compiled.library])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        where = cgutils.unpack_tuple(builder, args[0])
        known = cgutils.pack_struct(builder, [args[3], *where[1:]])
        kept = cgutils.alloca_once_value(builder, known)

        # What a thread does: it gets a pointer to what is known.
        name = builder.module.get_unique_name("legs_of_a_thread")
        thread = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), [byte]), name)
        thread.linkage = "internal"
        inside = ir.IRBuilder(thread.append_basic_block("entry"))
        given = inside.load(inside.bitcast(thread.args[0], known.type.as_pointer()))
        values = cgutils.unpack_tuple(inside, inside.extract_value(given, 0))
        asked = ir.FunctionType(number, []).as_pointer()
        for k in (1, 2):
            answer = inside.call(inside.inttoptr(inside.extract_value(given, k), asked), [])
            values.append(inside.sext(answer, ir.IntType(64)))
        context.call_internal_no_propagate(inside, compiled.fndesc, call, values)
        inside.ret_void()

        kind = ir.FunctionType(ir.VoidType(), [thread.type, byte, number, number])
        start = builder.inttoptr(where[0], kind.as_pointer())
        many = builder.trunc(args[1], number)
        builder.call(start, [thread, builder.bitcast(kept, byte), many, number(0)])
        return context.get_dummy_value()

    return types.void(places, types.intp, function, arguments), build
