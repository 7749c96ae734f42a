"""SIMD vectors of a fixed number of lanes in compiled code.

LLVM does not vectorize these kernels by itself: it cannot know that buffers do not overlap, and
rows are too short to pay for a check at run time. A :class:`Vector` is a value like a float, held
in registers, with lane-wise ``+ - * /`` (floats are broadcast), loaded from and stored to flat
arrays. Its shape is part of its type; an argument ``like`` passes the shape on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

# numba's own annotations take the typing context for an argument.
intrinsic: Callable[..., Any] = extending.intrinsic
_INDEX = ir.IntType(64)


LINE = 64  # bytes of a cache line, and of the widest vectors


@cache
def cover(channels: int, itemsize: int, most: int) -> tuple[int, int]:
    """Lanes and number, up to ``most``, of wide vectors that cover channels with little overlap.

    >>> [cover(channels, 4, 8) for channels in (2, 16, 40, 64, 80)]
    [(2, 1), (16, 1), (8, 5), (16, 4), (16, 5)]
    """
    best = (float("inf"), 1, 1)
    for lanes in (1, 2, 4, 8, 16):
        for parts in range(1, most + 1):
            if lanes * itemsize <= LINE and lanes * parts <= channels:
                passes = -(-channels // (lanes * parts))
                vectors = parts * max(1.0, lanes * itemsize / 48)
                best = min(best, (passes * (vectors + 1), -lanes, parts))
    return -best[1], best[2]


class Vector(types.Type):
    """The type of ``parts`` times ``lanes`` numbers of type ``dtype``.

    ``lanes`` should be a power of two. The parts are there for other multiples: LLVM handles
    vectors of, say, 24 numbers badly, but three of 8 well.
    """

    def __init__(self, dtype: Any, lanes: int, parts: int = 1) -> None:
        self.dtype, self.lanes, self.parts = dtype, lanes, parts
        super().__init__(name=f"Vector({dtype}, {lanes}, {parts})")


@extending.register_model(Vector)
class _VectorModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        element = manager.lookup(kind.dtype).get_data_type()
        array = ir.ArrayType(ir.VectorType(element, kind.lanes), kind.parts)
        super().__init__(manager, kind, array)


def _split(builder, value):
    return [builder.extract_value(value, k) for k in range(value.type.count)]


def _unite(builder: Any, parts: list[Any]) -> Any:
    whole = ir.Constant(ir.ArrayType(parts[0].type, len(parts)), ir.Undefined)
    for k, part in enumerate(parts):
        whole = builder.insert_value(whole, part, k)
    return whole


def _pick(builder, part, places):
    """The lanes of a part at these places."""
    kind = ir.VectorType(ir.IntType(32), len(places))
    return builder.shuffle_vector(
        part, ir.Constant(part.type, ir.Undefined), ir.Constant(kind, list(places))
    )


def _broadcast(builder, kind, value):
    """A part with the scalar, or the lanes of a shorter part, again and again."""
    if not isinstance(value.type, ir.VectorType):
        single = ir.Constant(ir.VectorType(value.type, 1), ir.Undefined)
        value = builder.insert_element(single, value, ir.IntType(32)(0))
    return _pick(builder, value, [lane % value.type.count for lane in range(kind.count)])


def _signature(args: tuple[Any, ...]) -> Any:
    """Of a lane-wise function: floats, and vectors of fewer lanes or one part, are repeated."""
    vectors = [arg for arg in args if isinstance(arg, Vector)]
    if not vectors or not all(isinstance(arg, Vector | types.Float) for arg in args):
        return None
    lanes, parts = max(v.lanes for v in vectors), max(v.parts for v in vectors)
    kind = Vector(vectors[0].dtype, lanes, parts)
    for v in vectors:
        if v.dtype != kind.dtype or lanes % v.lanes or v.parts not in (1, parts):
            return None
    return signature(kind, *[arg if isinstance(arg, Vector) else kind.dtype for arg in args])


def _lanewise(function: Callable[..., Any]) -> Any:
    """Code of a lane-wise function, from one on single parts."""

    def build(context, builder, sig, values):
        kind, columns = context.get_value_type(sig.return_type), []
        for arg, value in zip(sig.args, values, strict=True):
            split = _split(builder, value) if isinstance(arg, Vector) else [value]
            if split[0].type != kind.element:
                split = [_broadcast(builder, kind.element, part) for part in split]
            columns.append(split if len(split) == kind.count else split * kind.count)
        return _unite(builder, [function(builder, *row) for row in zip(*columns, strict=True)])

    return build


class _Operator(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return _signature(args)


for _symbol, _name in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("truediv", "fdiv")):
    infer_global(getattr(operator, _symbol))(_Operator)
    for _kinds in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):
        _code = _lanewise(getattr(ir.IRBuilder, _name))
        extending.lower_builtin(getattr(operator, _symbol), *_kinds)(_code)


def _call(builder: Any, name: str, *args: Any) -> Any:
    """An LLVM intrinsic of equal argument and result types."""
    kind = args[0].type
    suffix = f"v{kind.count}{'f32' if kind.element == ir.FloatType() else 'f64'}"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * len(args)), f"llvm.{name}.{suffix}"
    )
    return builder.call(function, args)


def _select(builder: Any, comparison: str, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(comparison, a, b), a, b)


def _function(arguments: int, part: Callable[..., Any]) -> Any:
    """A lane-wise function, from one on single parts."""
    code = _lanewise(part)

    def typed(*args):
        sig = _signature(args)
        return sig and (sig, code)

    visible = (  # numba wants to see how many arguments there are
        lambda typingctx, a: typed(a),
        lambda typingctx, a, b: typed(a, b),
        lambda typingctx, a, b, c: typed(a, b, c),
    )
    return intrinsic(visible[arguments - 1])


def _with_sign_of(builder, value, z):
    zero = ir.Constant(z.type, [0.0] * z.type.count)
    flipped = builder.select(builder.fcmp_ordered("<", z, zero), builder.fneg(value), value)
    return builder.select(builder.fcmp_ordered("==", z, zero), zero, flipped)


#: ``a * b + c``, in one instruction where the CPU has it.
multiply_add = _function(3, lambda builder, a, b, c: _call(builder, "fmuladd", a, b, c))
square_root = _function(1, lambda builder, part: _call(builder, "sqrt", part))
absolute = _function(1, lambda builder, part: _call(builder, "fabs", part))
maximum = _function(2, lambda builder, a, b: _select(builder, ">", a, b))
minimum = _function(2, lambda builder, a, b: _select(builder, "<", a, b))
#: ``value`` times the sign of ``z``; zero where ``z`` is.
with_sign_of = _function(2, _with_sign_of)


@intrinsic
def zeros(typingctx, array, lanes, parts):
    """A vector of zeros of the array's dtype; its shape must be constant."""
    if not all(isinstance(arg, types.IntegerLiteral) for arg in (lanes, parts)):
        return None
    kind = Vector(array.dtype, lanes.literal_value, parts.literal_value)

    def build(context, builder, sig, args):
        whole = context.get_value_type(kind)
        part = ir.Constant(whole.element, [0.0] * kind.lanes)
        return ir.Constant(whole, [part] * kind.parts)

    return kind(array, lanes, parts), build


@intrinsic
def len_of(typingctx, vector):
    """The number of elements of a vector, a constant."""
    size = vector.lanes * vector.parts
    return types.intp(vector), lambda context, *_: context.get_constant(types.intp, size)


def _is_flat(array):
    if isinstance(array, types.CPointer):
        return True
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"


def address(context, builder, array, value, index):
    """A pointer to an element of a flat array."""
    if isinstance(array, types.Array):
        value = context.make_array(array)(context, builder, value).data
    return builder.gep(value, [index])


@intrinsic
def pointer(typingctx, array, index):
    """The elements of a flat array from ``index`` on, without its counter of references.

    The array has to be in use as long.
    """

    def build(context, builder, sig, args):
        return address(context, builder, array, *args)

    return (types.CPointer(array.dtype)(array, types.intp), build) if _is_flat(array) else None


@intrinsic
def value_if(typingctx, option, value):
    """``value``, or ``None`` if the option is ``None``: numba would make it optional."""
    if isinstance(option, types.NoneType):
        return option(option, value), lambda context, *_: context.get_dummy_value()
    return value(option, value), lambda context, builder, sig, args: args[1]


def _fits(vector, array):
    return isinstance(vector, Vector) and _is_flat(array) and array.dtype == vector.dtype


def _places(context, builder, sig, vector, value, index, stride):
    """Pointers to the parts of a vector in a flat array, one after another or a stride apart."""
    kind, start = vector.type, address(context, builder, sig.args[1], value, index)
    pointer = kind.element.as_pointer()
    apart = stride if sig.args[3] == types.intp else _INDEX(kind.element.count)
    offsets = [builder.mul(apart, _INDEX(k)) for k in range(kind.count)]
    return [builder.bitcast(builder.gep(start, [offset]), pointer) for offset in offsets]


def _indices(stride):
    return types.intp, types.intp if isinstance(stride, types.Integer) else types.Omitted(None)


@intrinsic
def load(typingctx, like, array, index, stride=None):
    """The elements of a flat array from ``index`` on, or part k from ``index + k * stride`` on; not
    bounds-checked."""

    def build(context, builder, sig, args):
        places, align = _places(context, builder, sig, *args), array.dtype.bitwidth // 8
        return _unite(builder, [builder.load(place, align=align) for place in places])

    return (like(like, array, *_indices(stride)), build) if _fits(like, array) else None


@intrinsic
def store(typingctx, value, array, index, stride=None):
    """Writes a vector where :func:`load` reads it."""

    def build(context, builder, sig, args):
        places, align = _places(context, builder, sig, *args), array.dtype.bitwidth // 8
        for part, place in zip(_split(builder, args[0]), places, strict=True):
            builder.store(part, place, align=align)
        return context.get_dummy_value()

    return (types.void(value, array, *_indices(stride)), build) if _fits(value, array) else None


@intrinsic
def at(typingctx, array, index):
    """``array[index]`` of a flat array; not bounds-checked, no negative indices."""

    def build(context, builder, sig, args):
        return builder.load(address(context, builder, array, *args))

    return (array.dtype(array, types.intp), build) if _is_flat(array) else None


@intrinsic
def put(typingctx, array, index, value):
    """``array[index] = value`` of a flat array; not bounds-checked, no negative indices."""

    def build(context, builder, sig, args):
        builder.store(args[2], address(context, builder, array, args[0], args[1]))
        return context.get_dummy_value()

    return (types.void(array, types.intp, array.dtype), build) if _is_flat(array) else None


@intrinsic
def fold_product(typingctx, like, a, b):
    """All parts of ``a * b`` added up to one like ``like``, and pieces of so many lanes."""
    if like.parts != 1 or a != b or a.lanes % like.lanes:
        return None

    def build(context, builder, sig, args):
        ones, twos = (_split(builder, arg) for arg in args[1:])
        total = builder.fmul(ones[0], twos[0])
        for one, two in zip(ones[1:], twos[1:], strict=True):
            total = _call(builder, "fmuladd", one, two, total)
        while (half := total.type.count // 2) >= like.lanes:
            low, high = range(half), range(half, 2 * half)
            total = builder.fadd(*(_pick(builder, total, places) for places in (low, high)))
        return _unite(builder, [total])

    return like(like, a, b), build
