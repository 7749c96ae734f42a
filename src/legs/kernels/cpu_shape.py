"""Numbers that the compiler is to know.

A kernel is compiled for every :class:`Shape` it is called with: in compiled code its attributes are
constants, to unroll loops by and to make vectors of. The shape is part of the kernel's signature,
so compiled code is found on disk again by the next process. There numba looks only whether the
file of the kernel itself has changed; a checksum of all files in the shape does the rest.

Importing this module imports numba.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from numba import types
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import (
    NativeValue,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

T = TypeVar("T")

_FILES = (
    "attend",
    "banks",
    "csr",
    "first",
    "fork",
    "graph",
    "jit",
    "kernels",
    "moments",
    "parts",
    "room",
    "second",
    "shape",
    "vectors",
    "weights",
)


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for."""

    channels: int
    scales: int
    steps: int
    children: int  # of a parent wavelet at most; one if there are no parents
    lanes: int  # of a block of the second order
    row: int  # lanes of the first order of a unit
    four_lanes: int
    four_row: int
    source: int  # checksum


@cache
def source_checksum() -> int:
    """A number that changes with the source of the kernels."""
    folder = Path(__file__).parent
    return crc32(b"".join((folder / f"cpu_{name}.py").read_bytes() for name in _FILES))


class ShapeType(types.Type):
    """A shape in compiled code: a :class:`Shape`, or another frozen class of numbers."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape
        super().__init__(name=f"{type(shape).__name__}{astuple(shape)}")


register_model(ShapeType)(models.OpaqueModel)


_type_of = cache(ShapeType)


def constants(kind: type[T]) -> type[T]:
    """Lets compiled code take instances of a frozen class of numbers, which it knows then."""
    typeof_impl.register(kind)(lambda shape, context: _type_of(shape))
    return kind


constants(Shape)


@unbox(ShapeType)
def _unbox(kind: ShapeType, value: Any, context: Any) -> Any:
    return NativeValue(context.context.get_dummy_value())


@infer_getattr
class _Attributes(AttributeTemplate):
    key = ShapeType

    def generic_resolve(self, value: Any, attr: str) -> Any:  # type: ignore[override]
        return types.literal(getattr(value.shape, attr))


@lower_getattr_generic(ShapeType)
def _get(context: Any, builder: Any, kind: ShapeType, value: Any, name: str) -> Any:
    return context.get_constant(types.intp, getattr(kind.shape, name))
