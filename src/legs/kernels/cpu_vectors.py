"""Vectors of a fixed number of lanes inside compiled code.

The compiler does not find the vectors by itself here: it cannot know that the buffers of a kernel
do not overlap, and the number of lanes is too small to pay for finding out at every row. So they
are given to it: a :class:`Vector` is a value like a float, kept in registers, with ``+ - * /`` lane
by lane (a float on one side is repeated), loaded from and stored to flat arrays. Its shape is part
of its type; an argument ``like`` passes it on.

Importing this module imports numba.
"""

from __future__ import annotations

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

    ``lanes`` should be a power of two. The parts are there for other multiples: the compiler
    handles vectors of, say, 24 numbers badly, but three of 8 well.
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
        one = ir.VectorType(element, kind.lanes)
        whole = ir.ArrayType(one, kind.parts)
        super().__init__(manager, kind, whole)  # type: ignore[no-untyped-call]


def _split(builder: Any, value: Any) -> list[Any]:
    return [builder.extract_value(value, k) for k in range(value.type.count)]


def _unite(builder: Any, parts: list[Any]) -> Any:
    whole = ir.Constant(ir.ArrayType(parts[0].type, len(parts)), ir.Undefined)
    for k, part in enumerate(parts):
        whole = builder.insert_value(whole, part, k)
    return whole


def _join(builder: Any, one: Any, two: Any, lanes: list[int]) -> Any:
    """Lanes of two parts, counted through."""
    places = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
    return builder.shuffle_vector(one, two, places)


def _pick(builder: Any, part: Any, lanes: list[int]) -> Any:
    return _join(builder, part, ir.Constant(part.type, ir.Undefined), lanes)


def _spread(builder: Any, kind: Any, scalar: Any) -> Any:
    """A part with the scalar in every lane."""
    first = ir.Constant(ir.IntType(32), 0)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, first)
    return _pick(builder, one, [0] * kind.count)


def _aligned(builder: Any, sig: Any, args: Any) -> list[list[Any]]:
    """The parts of all arguments, one list a part; floats are spread."""
    kind = next(arg for arg, of in zip(args, sig.args, strict=True) if isinstance(of, Vector)).type
    columns = [
        _split(builder, arg)
        if isinstance(of, Vector)
        else [_spread(builder, kind.element, arg)] * kind.count
        for arg, of in zip(args, sig.args, strict=True)
    ]
    return [list(parts) for parts in zip(*columns, strict=True)]


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """Builds an operation from one on single parts."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _unite(builder, [function(builder, *row) for row in _aligned(builder, sig, args)])

    return build


def _same_kind(args: tuple[Any, ...]) -> Any:
    """The signature of an operation on vectors of one kind and floats; ``None`` if they differ."""
    kinds = {arg for arg in args if isinstance(arg, Vector)}
    if len(kinds) != 1 or not all(isinstance(arg, Vector | types.Float) for arg in args):
        return None
    (kind,) = kinds
    return signature(kind, *[arg if isinstance(arg, Vector) else kind.dtype for arg in args])


# Arithmetic


def _register(function: Callable[..., Any], instruction: str) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            return _same_kind(args)

    infer_global(function)(Template)
    build = _each(lambda builder, a, b: getattr(builder, instruction)(a, b))
    for kinds in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):
        extending.lower_builtin(function, *kinds)(build)


_register(operator.add, "fadd")
_register(operator.sub, "fsub")
_register(operator.mul, "fmul")
_register(operator.truediv, "fdiv")


def _call(builder: Any, name: str, *args: Any) -> Any:
    """An LLVM intrinsic of equal argument and result types."""
    kind = args[0].type
    letter = "f32" if kind.element == ir.FloatType() else "f64"
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(kind, [kind] * len(args)),
        f"llvm.{name}.v{kind.count}{letter}",
    )
    return builder.call(function, args)


def _elementwise(args: tuple[Any, ...], function: Callable[..., Any]) -> Any:
    sig = _same_kind(args)
    return None if sig is None else (sig, _each(function))


@intrinsic
def multiply_add(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, in one instruction where the machine has it."""
    return _elementwise((a, b, c), lambda builder, *row: _call(builder, "fmuladd", *row))


@intrinsic
def square_root(typingctx: Any, a: Any) -> Any:
    """Square roots."""
    return _elementwise((a,), lambda builder, part: _call(builder, "sqrt", part))


@intrinsic
def absolute(typingctx: Any, a: Any) -> Any:
    """Absolute values."""
    return _elementwise((a,), lambda builder, part: _call(builder, "fabs", part))


@intrinsic
def larger(typingctx: Any, a: Any, b: Any) -> Any:
    """The larger of two, lane by lane."""
    return _elementwise(
        (a, b), lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b)
    )


@intrinsic
def smaller(typingctx: Any, a: Any, b: Any) -> Any:
    """The smaller of two, lane by lane."""
    return _elementwise(
        (a, b), lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b)
    )


@intrinsic
def with_sign_of(typingctx: Any, value: Any, z: Any) -> Any:
    """``value`` times the sign of ``z``; zero where ``z`` is."""

    def choose(builder: Any, value: Any, z: Any) -> Any:
        zero = ir.Constant(z.type, [0.0] * z.type.count)
        flipped = builder.select(builder.fcmp_ordered("<", z, zero), builder.fneg(value), value)
        return builder.select(builder.fcmp_ordered("==", z, zero), zero, flipped)

    return _elementwise((value, z), choose)


# Into, out of and between vectors


def _zeros(context: Any, kind: Vector) -> Any:
    whole = context.get_value_type(kind)
    part = ir.Constant(whole.element, [0.0] * kind.lanes)
    return ir.Constant(whole, [part] * kind.parts)


@intrinsic
def zeros(typingctx: Any, array: Any, lanes: Any, parts: Any) -> Any:
    """A vector of zeros, of the array's type; its shape are constants."""
    if not all(isinstance(arg, types.IntegerLiteral) for arg in (lanes, parts)):
        return None
    kind = Vector(array.dtype, lanes.literal_value, parts.literal_value)
    return kind(array, lanes, parts), lambda context, builder, sig, args: _zeros(context, kind)


@intrinsic
def zeros_like(typingctx: Any, like: Any) -> Any:
    """A vector of zeros."""
    return like(like), lambda context, builder, sig, args: _zeros(context, like)


@intrinsic
def fill(typingctx: Any, like: Any, scalar: Any) -> Any:
    """A vector with the scalar in every lane."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        part = _spread(builder, args[0].type.element, args[1])
        return _unite(builder, [part] * like.parts)

    return like(like, like.dtype), build


@intrinsic
def len_of(typingctx: Any, vector: Any) -> Any:
    """How many numbers there are in a vector, as a constant."""
    size = vector.lanes * vector.parts
    return types.intp(vector), lambda context, builder, sig, args: context.get_constant(
        types.intp, size
    )


def _flat(array: Any) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"


def _pointers(context: Any, builder: Any, array: Any, args: Any, kind: Any) -> list[Any]:
    """Where the parts of a vector are in an array (``args``: the array and an index)."""
    data = context.make_array(array)(context, builder, args[0]).data
    place = builder.gep(data, [args[1]])
    step = ir.IntType(64)
    return [
        builder.bitcast(
            builder.gep(place, [ir.Constant(step, k * kind.element.count)]),
            kind.element.as_pointer(),
        )
        for k in range(kind.count)
    ]


@intrinsic
def load(typingctx: Any, like: Any, array: Any, index: Any) -> Any:
    """The numbers of a flat array from ``index`` on; not checked."""
    if not (isinstance(like, Vector) and _flat(array) and array.dtype == like.dtype):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = context.get_value_type(like)
        parts = [builder.load(p) for p in _pointers(context, builder, array, args[1:], kind)]
        for part in parts:
            part.align = array.dtype.bitwidth // 8
        return _unite(builder, parts)

    return like(like, array, types.intp), build


@intrinsic
def store(typingctx: Any, value: Any, array: Any, index: Any) -> Any:
    """Writes a vector to a flat array from ``index`` on; not checked."""
    if not (isinstance(value, Vector) and _flat(array) and array.dtype == value.dtype):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        places = _pointers(context, builder, array, args[1:], args[0].type)
        for part, place in zip(_split(builder, args[0]), places, strict=True):
            builder.store(part, place).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(value, array, types.intp), build


@intrinsic
def at(typingctx: Any, array: Any, index: Any) -> Any:
    """``array[index]`` of a flat array; not checked, and never counted from the end."""
    if not _flat(array):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(array)(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]))

    return array.dtype(array, types.intp), build


@intrinsic
def put(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """``array[index] = value`` of a flat array; not checked, and never counted from the end."""
    if not _flat(array):
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(array)(context, builder, args[0]).data
        builder.store(args[2], builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), build


@intrinsic
def repeat(typingctx: Any, like: Any, vector: Any) -> Any:
    """A vector of one part in every part of another."""
    if vector.lanes != like.lanes or vector.parts != 1:
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _unite(builder, _split(builder, args[1]) * like.parts)

    return like(like, vector), build


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
    """A vector of one part, cut to the length of another or filled up to it with zeros."""
    if like.parts != 1 or vector.parts != 1:
        return None

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        (part,) = _split(builder, args[1])
        nothing = ir.Constant(part.type, [0.0] * vector.lanes)
        lanes = [min(lane, vector.lanes) for lane in range(like.lanes)]
        return _unite(builder, [_join(builder, part, nothing, lanes)])

    return like(like, vector), build


@intrinsic
def interleave(typingctx: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Four vectors as one: of every part the first lanes of all four, then their second, ..."""
    if not (isinstance(a, Vector) and a == b == c == d):
        return None
    kind, lanes = Vector(a.dtype, 4 * a.lanes, a.parts), a.lanes

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        parts = []
        for one, two, three, four in _aligned(builder, sig, args):
            low = _join(builder, one, two, list(range(2 * lanes)))
            high = _join(builder, three, four, list(range(2 * lanes)))
            order = [k * lanes + lane for lane in range(lanes) for k in range(4)]
            parts.append(_join(builder, low, high, order))
        return _unite(builder, parts)

    return kind(a, b, c, d), build


@intrinsic
def every_fourth(typingctx: Any, vector: Any, first: Any) -> Any:
    """Every fourth lane from ``first`` (a constant) on: one of those that were interleaved."""
    if not isinstance(first, types.IntegerLiteral):
        return None
    kind = Vector(vector.dtype, vector.lanes // 4, vector.parts)
    lanes = list(range(first.literal_value, vector.lanes, 4))

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _unite(builder, [_pick(builder, part, lanes) for part in _split(builder, args[0])])

    return kind(vector, first), build
