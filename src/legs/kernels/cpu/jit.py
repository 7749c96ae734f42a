"""Compilation by numba: decorators, compile-time constants, and the key of cached machine code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.imputils import lower_constant
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import (
    NativeValue,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from legs.io import source_digest

# Some of the options used here are unknown to numba's annotations.
_njit: Callable[..., Any] = numba.njit

# Internal functions are never called from Python: without wrappers they compile faster.
_INTERNAL = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

#: Internal functions: called, and inlined by LLVM.
inner: Callable[..., Any] = _njit(**_INTERNAL)
inlined: Callable[..., Any] = _njit(**_INTERNAL, forceinline=True)


@cache
def source_checksum() -> str:
    """Changes with every source that compiled code may contain: functions and constants."""
    package = Path(__file__).parents[2]
    return source_digest(package / "functional", package / "kernels")[:12]


def entry(function: Callable[..., Any]) -> Any:
    """Compiles a function that Python calls; machine code is cached on disk."""
    # Numba recompiles when the function's own file changes, but not when a file it uses does. It
    # names the files of machine code after the function, so the name includes all sources.
    function.__qualname__ += f"_{source_checksum()}"
    try:
        return _njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no writable directory for the cache
        return _njit(nogil=True)(function)


class Constants:
    """Base of frozen dataclasses of integers that are constants in compiled code.

    It unrolls and vectorizes by them: a kernel is compiled for each different value.
    """


class ConstantsType(types.Type):
    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__(name=f"{type(value).__name__}{astuple(value)}")


register_model(ConstantsType)(models.OpaqueModel)
_type_of = cache(ConstantsType)
typeof_impl.register(Constants)(lambda value, context: _type_of(value))


@lower_constant(ConstantsType)
def _lower(context: Any, builder: Any, kind: ConstantsType, value: Any) -> Any:
    return context.get_dummy_value()


@unbox(ConstantsType)
def _unbox(kind: ConstantsType, value: Any, context: Any) -> Any:
    return NativeValue(context.context.get_dummy_value())


@infer_getattr
class _Attributes(AttributeTemplate):
    key = ConstantsType

    def generic_resolve(self, value: Any, attr: str) -> Any:  # type: ignore[override]
        return types.literal(getattr(value.value, attr))


@lower_getattr_generic(ConstantsType)
def _get(context: Any, builder: Any, kind: ConstantsType, value: Any, name: str) -> Any:
    return context.get_constant(types.intp, getattr(kind.value, name))
