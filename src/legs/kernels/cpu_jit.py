"""How the kernels are compiled.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

# Some of the options used here are unknown to numba's annotations.
_njit: Callable[..., Any] = numba.njit

# Nobody calls a kernel's parts from Python: without wrappers they compile sooner.
_PART = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

#: A part that is called; one whose code is put in its place; one whose source is.
inner: Callable[..., Any] = _njit(**_PART)
inlined: Callable[..., Any] = _njit(**_PART, forceinline=True)
merged: Callable[..., Any] = _njit(**_PART, inline="always")


def entry(function: Callable[..., Any], **options: Any) -> Any:
    """Compiles a function that Python calls. Machine code is kept on disk for the next process."""
    try:
        return _njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep it: a read-only place and no home
        return _njit(nogil=True, **options)(function)


def summing(function: Callable[..., Any]) -> Any:
    """As :func:`entry`, but sums may be taken in the order that suits vectors.

    Dividing by zero gives infinity, as in PyTorch, and no error.
    """
    return entry(function, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
