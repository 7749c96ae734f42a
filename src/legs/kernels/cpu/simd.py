"""SIMD vectors of a fixed number of lanes in compiled code.

LLVM does not vectorize these kernels by itself: it cannot know that buffers do not overlap, and
rows are too short to pay for a check at run time. A :class:`Vector` is a value like a float, held
in registers, with lane-wise ``+ - * /`` (floats are broadcast), loaded from and stored to flat
arrays. Its shape is part of its type; an argument ``like`` passes the shape on.

Importing this module imports numba.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

# numba's own annotations take the typing context for an argument.
intrinsic: Callable[..., Any] = extending.intrinsic


class Vector(types.Type):
    """The type of ``parts`` times ``lanes`` numbers of type ``dtype``.

    ``lanes`` should be a power of two. The parts are there for other multiples: LLVM handles
    vectors of, say, 24 numbers badly, but three of 8 well.
    """

    def __init__(self, dtype: Any, lanes: int, parts: int = 1) -> None:
        self.dtype = dtype
        self.lanes = lanes
        self.parts = parts
        super().__init__(name=f"Vector({dtype}, {lanes}, {parts})")


@extending.register_model(Vector)
class _VectorModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        element = manager.lookup(kind.dtype).get_data_type()
        array = ir.ArrayType(ir.VectorType(element, kind.lanes), kind.parts)
        super().__init__(manager, kind, array)  # type: ignore[no-untyped-call]


def _split(builder: Any, value: Any) -> list[Any]:
    return [builder.extract_value(value, k) for k in range(value.type.count)]


def _unite(builder: Any, parts: list[Any]) -> Any:
    whole = ir.Constant(ir.ArrayType(parts[0].type, len(parts)), ir.Undefined)
    for k, part in enumerate(parts):
        whole = builder.insert_value(whole, part, k)
    return whole


def _shuffle(builder: Any, one: Any, two: Any, lanes: list[int]) -> Any:
    """Lanes of two parts, numbered consecutively; ``None`` for a part that no lane comes from."""
    two = ir.Constant(one.type, ir.Undefined) if two is None else two
    places = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
    return builder.shuffle_vector(one, two, places)


def _broadcast(builder: Any, kind: Any, scalar: Any) -> Any:
    """A part with the scalar in every lane."""
    undefined, first = ir.Constant(kind, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    return _shuffle(
        builder, builder.insert_element(undefined, scalar, first), None, [0] * kind.count
    )


def _common(args: tuple[Any, ...]) -> Any:
    """The type that floats and vectors of one part are broadcast to; ``None`` if there is none."""
    vectors = [arg for arg in args if isinstance(arg, Vector)]
    if not vectors or not all(isinstance(arg, Vector | types.Float) for arg in args):
        return None
    kind = max(vectors, key=lambda vector: vector.parts)
    fits = all(
        (v.dtype, v.lanes) == (kind.dtype, kind.lanes) and v.parts in (1, kind.parts)
        for v in vectors
    )
    return kind if fits else None


def _lanewise(args: tuple[Any, ...], function: Callable[..., Any]) -> Any:
    """Signature and code of an operation, from one on single parts."""
    kind = _common(args)
    if kind is None:
        return None

    def build(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        part = context.get_value_type(kind).element
        columns = []
        for arg, value in zip(sig.args, values, strict=True):
            vector = isinstance(arg, Vector)
            split = _split(builder, value) if vector else [_broadcast(builder, part, value)]
            columns.append(split if len(split) == kind.parts else split * kind.parts)
        rows = zip(*columns, strict=True)
        return _unite(builder, [function(builder, *row) for row in rows])

    return signature(kind, *[arg if isinstance(arg, Vector) else kind.dtype for arg in args]), build


def _register(function: Callable[..., Any], instruction: str) -> None:
    def build(builder: Any, a: Any, b: Any) -> Any:
        return getattr(builder, instruction)(a, b)

    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            found = _lanewise(args, build)
            return found and found[0]

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return _lanewise(sig.args, build)[1](context, builder, sig, values)

    infer_global(function)(Template)
    for kinds in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):
        extending.lower_builtin(function, *kinds)(lower)


_register(operator.add, "fadd")
_register(operator.sub, "fsub")
_register(operator.mul, "fmul")
_register(operator.truediv, "fdiv")


def _call(builder: Any, name: str, *args: Any) -> Any:
    """An LLVM intrinsic of equal argument and result types."""
    kind = args[0].type
    suffix = f"v{kind.count}{'f32' if kind.element == ir.FloatType() else 'f64'}"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * len(args)), f"llvm.{name}.{suffix}"
    )
    return builder.call(function, args)


def _lanewise_intrinsic(build: Callable[..., Any]) -> Any:
    """A function of one to three vectors or floats; numba wants to see how many."""
    signatures = (
        lambda typingctx, a: _lanewise((a,), build),
        lambda typingctx, a, b: _lanewise((a, b), build),
        lambda typingctx, a, b, c: _lanewise((a, b, c), build),
    )
    return intrinsic(signatures[len(inspect.signature(build).parameters) - 2])


def _select(builder: Any, comparison: str, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(comparison, a, b), a, b)


#: ``a * b + c``, in one instruction where the CPU has it.
multiply_add = _lanewise_intrinsic(lambda builder, a, b, c: _call(builder, "fmuladd", a, b, c))
square_root = _lanewise_intrinsic(lambda builder, part: _call(builder, "sqrt", part))
absolute = _lanewise_intrinsic(lambda builder, part: _call(builder, "fabs", part))
maximum = _lanewise_intrinsic(lambda builder, a, b: _select(builder, ">", a, b))
minimum = _lanewise_intrinsic(lambda builder, a, b: _select(builder, "<", a, b))


@_lanewise_intrinsic
def with_sign_of(builder: Any, value: Any, z: Any) -> Any:
    """``value`` times the sign of ``z``; zero where ``z`` is."""
    zero = ir.Constant(z.type, [0.0] * z.type.count)
    flipped = builder.select(builder.fcmp_ordered("<", z, zero), builder.fneg(value), value)
    return builder.select(builder.fcmp_ordered("==", z, zero), zero, flipped)


@intrinsic
def zeros(typingctx: Any, array: Any, lanes: Any, parts: Any) -> Any:
    """A vector of zeros of the array's dtype; its shape must be constant."""
    if not all(isinstance(arg, types.IntegerLiteral) for arg in (lanes, parts)):
        return None
    kind = Vector(array.dtype, lanes.literal_value, parts.literal_value)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        whole = context.get_value_type(kind)
        part = ir.Constant(whole.element, [0.0] * kind.lanes)
        return ir.Constant(whole, [part] * kind.parts)

    return kind(array, lanes, parts), build


@intrinsic
def fill(typingctx: Any, like: Any, scalar: Any) -> Any:
    """A vector with the scalar in every lane."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        part = _broadcast(builder, args[0].type.element, args[1])
        return _unite(builder, [part] * like.parts)

    return like(like, like.dtype), build


@intrinsic
def len_of(typingctx: Any, vector: Any) -> Any:
    """The number of elements of a vector, a constant."""
    size = vector.lanes * vector.parts
    return types.intp(vector), lambda context, builder, sig, args: context.get_constant(
        types.intp, size
    )


def _is_flat(array: Any) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"


def _address(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:
    return builder.gep(context.make_array(array)(context, builder, value).data, [index])


def _part_addresses(builder: Any, start: Any, kind: Any) -> list[Any]:
    steps = [ir.Constant(ir.IntType(64), k * kind.element.count) for k in range(kind.count)]
    pointer = kind.element.as_pointer()
    return [builder.bitcast(builder.gep(start, [step]), pointer) for step in steps]


@intrinsic
def load(typingctx: Any, like: Any, array: Any, index: Any) -> Any:
    """The elements of a flat array from ``index`` on; not bounds-checked."""
    if not (isinstance(like, Vector) and _is_flat(array) and array.dtype == like.dtype):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        start = _address(context, builder, array, args[1], args[2])
        kind = context.get_value_type(like)
        parts = [builder.load(place) for place in _part_addresses(builder, start, kind)]
        for part in parts:
            part.align = array.dtype.bitwidth // 8
        return _unite(builder, parts)

    return like(like, array, types.intp), build


@intrinsic
def store(typingctx: Any, value: Any, array: Any, index: Any) -> Any:
    """Writes a vector to a flat array from ``index`` on; not bounds-checked."""
    if not (isinstance(value, Vector) and _is_flat(array) and array.dtype == value.dtype):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        start = _address(context, builder, array, args[1], args[2])
        places = _part_addresses(builder, start, args[0].type)
        for part, place in zip(_split(builder, args[0]), places, strict=True):
            builder.store(part, place).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(value, array, types.intp), build


@intrinsic
def at(typingctx: Any, array: Any, index: Any) -> Any:
    """``array[index]`` of a flat array; not bounds-checked, no negative indices."""
    if not _is_flat(array):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, array, *args))

    return array.dtype(array, types.intp), build


@intrinsic
def put(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """``array[index] = value`` of a flat array; not bounds-checked, no negative indices."""
    if not _is_flat(array):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, array, args[0], args[1]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), build


@intrinsic
def gather(
    typingctx: Any, like: Any, array: Any, offset: Any, rows: Any, first: Any, stride: Any
) -> Any:
    """Part k is ``array[offset + rows[first + k] * stride]`` in every lane; not bounds-checked."""
    if not (_is_flat(array) and _is_flat(rows) and array.dtype == like.dtype):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        part, number, parts = args[0].type.element, ir.IntType(64), []
        for k in range(like.parts):
            place = builder.add(args[4], ir.Constant(number, k))
            row = builder.load(_address(context, builder, rows, args[3], place))
            row = row if row.type == number else builder.sext(row, number)
            index = builder.add(args[2], builder.mul(row, args[5]))
            value = builder.load(_address(context, builder, array, args[1], index))
            parts.append(_broadcast(builder, part, value))
        return _unite(builder, parts)

    return like(like, array, types.intp, rows, types.intp, types.intp), build


@intrinsic
def fold_product(typingctx: Any, start: Any, a: Any, b: Any) -> Any:
    """``start`` plus all parts of ``a * b``."""
    if start.parts != 1 or a != b or a.lanes != start.lanes:
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        (total,) = _split(builder, args[0])
        for one, two in zip(_split(builder, args[1]), _split(builder, args[2]), strict=True):
            total = _call(builder, "fmuladd", one, two, total)
        return _unite(builder, [total])

    return start(start, a, b), build


@intrinsic
def resize(typingctx: Any, like: Any, vector: Any) -> Any:
    """A vector of one part, truncated or padded with zeros to the length of another."""
    if like.parts != 1 or vector.parts != 1:
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        (part,) = _split(builder, args[1])
        padding = ir.Constant(part.type, [0.0] * vector.lanes)
        lanes = [min(lane, vector.lanes) for lane in range(like.lanes)]
        return _unite(builder, [_shuffle(builder, part, padding, lanes)])

    return like(like, vector), build


@intrinsic
def interleave(typingctx: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Four vectors as one: of every part the first lanes of all four, then their second, ..."""
    if not (isinstance(a, Vector) and a == b == c == d):
        return None
    kind, lanes = Vector(a.dtype, 4 * a.lanes, a.parts), a.lanes
    pair = list(range(2 * lanes))
    order = [k * lanes + lane for lane in range(lanes) for k in range(4)]

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        parts = []
        for one, two, three, four in zip(*(_split(builder, arg) for arg in args), strict=True):
            low, high = _shuffle(builder, one, two, pair), _shuffle(builder, three, four, pair)
            parts.append(_shuffle(builder, low, high, order))
        return _unite(builder, parts)

    return kind(a, b, c, d), build


@intrinsic
def every_fourth(typingctx: Any, vector: Any, first: Any) -> Any:
    """Every fourth lane from ``first`` (a constant) on: undoes :func:`interleave`."""
    if not isinstance(first, types.IntegerLiteral):
        return None
    kind = Vector(vector.dtype, vector.lanes // 4, vector.parts)
    lanes = list(range(first.literal_value, vector.lanes, 4))

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        parts = [_shuffle(builder, part, None, lanes) for part in _split(builder, args[0])]
        return _unite(builder, parts)

    return kind(vector, first), build
