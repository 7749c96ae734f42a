"""Message passing on NVIDIA GPUs: ``sources/messages*``, compiled at run time for sizes at hand.

Everything is ``[models, nodes, channels]`` here, contiguous; graphs are the same for all models. No
kernel looks at its data from the host, none uses atomics: steps can be recorded, and give the same
bits every time.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from legs.kernels import cuda
from legs.kernels.cuda_launch import TYPES, Kernel

THREADS = 256
LONG = 64  # neighbours from which a row is the work of a whole block
ROWS_EACH = 8  # rows one after another in the hands of a group of threads
MOST_NARROW = 8  # inputs of a linear layer that is done row by row, times rows' pieces of a lane
ACTS = {"none": 0, "norm": 1, "tanh": 2}
_PARTS = {
    "aggregate": ("messages.cuh", "messages_aggregate.cu"),
    "rows": ("messages.cuh", "messages_rows.cuh", "messages_rows.cu"),
    "attend": ("messages.cuh", "messages_attend.cuh", "messages_attend.cu"),
    "attend_grad": ("messages.cuh", "messages_attend.cuh", "messages_attend_grad.cu"),
    "stack_adam": ("stack_adam.cu",),
    "stack_norm": ("stack_norm.cu",),
    "stack_batch": ("stack_batch.cu",),
}


class Shape(NamedTuple):
    """How a row is shared out: ``lanes`` threads, that read ``width`` numbers at once."""

    width: int
    lanes: int
    pieces: int


def applies(x: Tensor) -> bool:
    """Whether the kernels can be had where ``x`` is, and for its type."""
    return x.device.type == "cuda" and x.dtype in TYPES and cuda.available()


def shape_of(channels: int, dtype: torch.dtype) -> Shape:
    """For rows of so many channels.

    >>> shape_of(64, torch.float32), shape_of(3, torch.float32)
    (Shape(width=4, lanes=16, pieces=16), Shape(width=1, lanes=4, pieces=3))
    """
    widest = 16 // dtype.itemsize
    width = next(w for w in (4, 2, 1) if w <= widest and channels % w == 0)
    pieces = channels // width
    return Shape(width, min(32, 1 << (pieces - 1).bit_length()), pieces)


def shape_of_heads(heads: int, channels: int, dtype: torch.dtype) -> Shape | None:
    """For attention: every lane belongs to one head, which has a power of two of them."""
    widest = 16 // dtype.itemsize
    for width in (4, 2, 1):
        pieces = heads * channels // width
        fits = width <= widest and channels % width == 0 and 2 * heads % width == 0
        if fits and pieces <= 32 and pieces.bit_count() == heads.bit_count() == 1:
            return Shape(width, pieces, pieces)
    return None


def aggregate(
    h: Tensor,
    own: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    pre: Tensor | None,
    post: Tensor | None,
    once: bool,
    side: int,
    out: Tensor | None = None,
) -> Tensor:
    """See :func:`legs.kernels.messages.aggregate`; ``once`` stands for an ``own`` of one.

    ``side``: 1 where rows of ``h`` have a second half that is added to the result, 2 where rows of
    the result have one that takes ``h``, else 0. ``out``: columns of a wider tensor to write to.
    """
    models, rows, channels = h.shape
    channels = channels // 2 if side == 1 else channels
    shape = shape_of(channels, h.dtype)
    if out is None:
        out = h.new_empty(models, rows, channels * 2 if side == 2 else channels)
    constants = {
        "WEIGHTED": int(weight is not None),
        "PRE": int(pre is not None),
        "POST": int(post is not None),
        "OWN": 2 if own is not None else int(once),
        "SIDE": side,
    }
    blocks = -(-rows // (THREADS // shape.lanes))
    cuts = -(-shape.pieces // shape.lanes)
    start, stride = _strided(h, shape.width)
    given: list[Any] = [rowptr, col, *_or_nothing(h, weight, pre, post, own)]
    to, apart = _columns(out, shape.width)
    given += [start, to, rows, stride, apart // shape.width, blocks]
    _run("aggregate", "aggregate", h, shape, constants, models * cuts * blocks, given)
    return out


def is_narrow(inputs: int, channels: int, dtype: torch.dtype) -> bool:
    """Whether a linear layer of so many inputs is done row by row: its weight fits in registers.

    >>> is_narrow(2, 64, torch.float32), is_narrow(64, 64, torch.float32)
    (True, False)
    """
    shape = shape_of(channels, dtype)
    return 0 < inputs * -(-shape.pieces // shape.lanes) <= MOST_NARROW


def rows_forward(
    z: Tensor,
    bias: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    weight: Tensor | None,
    share: Tensor | None,
    ptr: Tensor,
    act: str,
    eps: float,
) -> Tensor:
    """A bias and an activation for every row; with ``share``, summed over the nodes of graphs.

    With ``weight``, ``[models, channels, inputs]``, ``z`` are inputs of a linear layer before that.
    """
    models, rows, channels = z.shape if weight is None else (*z.shape[:2], weight.shape[1])
    shape = shape_of(channels, z.dtype)
    start = [fit(z), *_of_rows(z, bias, gamma, beta, weight)]
    constants = _row_constants(bias, weight, share, act)
    if share is not None:
        graphs = ptr.shape[0] - 1
        out = z.new_empty(models, graphs, share.shape[1] * channels)
        given = [*start, fit(share), ptr, out, rows, graphs, eps]
        _run("rows", "rows_pooled", z, shape, constants, models * graphs, given)
        return out
    out = z.new_empty(models, rows, channels)
    blocks, each = _row_blocks(rows, shape)
    given = [*start, out, rows, blocks, each, eps]
    _run("rows", "rows_forward", z, shape, constants, models * blocks, given)
    return out


def rows_backward(
    grad: Tensor,
    z: Tensor | None,
    bias: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    weight: Tensor | None,
    share: Tensor | None,
    graph: Tensor,
    act: str,
    eps: float,
    wanted: bool = True,
    out: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """Gradients of the rows, if they are ``wanted``, and of whatever is the same for all of them.

    The latter are gamma, beta and bias, those there are, and the columns of the weight,
    ``[models, terms, channels]``. ``out``: columns of a wider tensor to write the former to.
    """
    models, rows = grad.shape[0], graph.shape[0]
    channels = grad.shape[2] if share is None else grad.shape[2] // share.shape[1]
    shape = shape_of(channels, grad.dtype)
    constants = _row_constants(bias, weight, share, act)
    blocks, each = _row_blocks(rows, shape)
    terms = constants["BIASED"] + (2 if act == "norm" else 0) + constants["NARROW"]
    if out is None and wanted:
        out = grad.new_empty(models, rows, channels)
    # One partial sum a block, added in a fixed order.
    partial = grad.new_empty(models, blocks, terms, channels)
    given: list[Any] = [fit(grad), *_or_nothing(grad, z)]
    given += [*_of_rows(grad, bias, gamma, beta, weight), *_or_nothing(grad, share), graph]
    to, apart = (grad.new_empty(0), 0) if out is None else _columns(out, shape.width)
    given += [to, partial, rows, grad.shape[1], blocks, each, apart, eps]
    _run("rows", "rows_backward", grad, shape, constants, models * blocks, given)
    return out, partial.sum(1)


def attend(
    u: Tensor, rowptr: Tensor, col: Tensor, weight: Tensor | None, heads: int, slope: float
) -> tuple[Tensor, Tensor]:
    """States after attention, and largest scores and sums, ``[models, nodes, 2, heads]``."""
    models, rows, _ = u.shape
    shape, constants = _attention(u, heads, weight)
    out = u.new_empty(models, rows, heads * constants["CHANNELS"])
    stats = u.new_empty(models, rows, 2, heads)
    blocks = -(-rows // (THREADS // shape.lanes))
    given = [rowptr, col, *_or_nothing(u, weight), fit(u), out, stats, rows, blocks, slope]
    _run("attend", "attend", u, shape, constants, models * blocks, given)
    return out, stats


def attend_backward(
    grad: Tensor,
    u: Tensor,
    stats: Tensor,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    copies: Tensor | None,
    heads: int,
    slope: float,
) -> Tensor:
    """Gradient of ``u``; with ``copies``, of all nodes that each one stands for together."""
    models, rows, _ = u.shape
    shape, constants = _attention(u, heads, weight)
    constants["COPIES"] = int(copies is not None)
    u, grad, counts = fit(u), fit(grad), _or_nothing(u, weight, copies)
    change, seen = torch.empty_like(u), u.new_empty(models, rows, 4, heads)
    blocks = -(-rows // (THREADS // shape.lanes))
    for name, own in (("receivers", [stats, change, seen]), ("senders", [seen, change])):
        given = [rowptr, col, *counts, u, grad, *own, rows, blocks, slope]
        _run("attend_grad", f"attend_{name}", u, shape, constants, models * blocks, given)
    return change


def fit(x: Tensor) -> Tensor:
    """Contiguous, and at an address that can be read in pieces of 16 bytes."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


@cache
def compiled(
    part: str, name: str, dtype: torch.dtype, device: int, **constants: int | str
) -> Kernel:
    """A kernel with its constants."""
    return Kernel(_PARTS[part], name, device, {"real": TYPES[dtype], **constants})


def _run(
    part: str,
    name: str,
    like: Tensor,
    shape: Shape,
    constants: dict[str, int],
    blocks: int,
    given: list[Any],
) -> None:
    if not blocks:
        return
    known = {"WIDTH": shape.width, "LANES": shape.lanes, "PIECES": shape.pieces}
    known |= {"THREADS": THREADS, "LONG": LONG, **constants}
    device = like.device.index
    kernel = compiled(part, name, like.dtype, device, **known)
    with torch.cuda.device(device):
        kernel(blocks, THREADS, given)


def _strided(h: Tensor, width: int) -> tuple[Tensor, int]:
    """Where rows start, as they lie if pieces can be read there; how many pieces they are apart."""
    apart = h.stride(1)
    regular = h.stride(2) == 1 and apart % width == 0 and h.stride(0) == apart * h.shape[1]
    if not regular or apart < h.shape[2] or h.data_ptr() % (width * h.element_size()):
        h = fit(h)
    first = h.as_strided((1,), (1,), h.storage_offset()) if h.numel() else h
    return first, h.stride(1) // width


def _columns(out: Tensor, width: int) -> tuple[Tensor, int]:
    """Where rows of a result start, and how many numbers they are apart."""
    apart = out.stride(1)
    if out.stride(0) != apart * out.shape[1] or apart % width or out.storage_offset() % width:
        raise ValueError("rows of a result must lie at one distance, where pieces can be written")
    return (out.as_strided((1,), (1,), out.storage_offset()) if out.numel() else out), apart


def layer(like: Tensor, *given: Tensor | None) -> list[Any]:
    """What a layer has for every model, where it lies; then how far apart those of models are."""
    starts, apart = [], []
    for x in given:
        if x is None or not x.numel():
            starts.append(like.new_empty(0))  # its address is null
            apart.append(0)
            continue
        if x.stride(1) != 1 or x.stride(0) % 4 or x.data_ptr() % 16:
            x = fit(x)
        starts.append(x.as_strided((1,), (1,), x.storage_offset()))
        apart.append(x.stride(0))
    return [*starts, *apart]


def _or_nothing(like: Tensor, *given: Tensor | None) -> list[Tensor]:
    nothing = like.new_empty(0)  # its address is null
    return [nothing if x is None else fit(x) for x in given]


def _of_rows(like: Tensor, *given: Tensor | None) -> list[Any]:
    return layer(like, *(None if x is None else x.flatten(1) for x in given))


def _row_constants(
    bias: Tensor | None, weight: Tensor | None, share: Tensor | None, act: str
) -> dict[str, int]:
    pool = 0 if share is None else share.shape[1]
    narrow = 0 if weight is None else weight.shape[2]
    return {"ACT": ACTS[act], "BIASED": int(bias is not None), "POOL": pool, "NARROW": narrow}


def _row_blocks(rows: int, shape: Shape) -> tuple[int, int]:
    """Blocks of a model, and rows of each."""
    each = ROWS_EACH * (THREADS // shape.lanes)
    return -(-rows // each), each


def _attention(u: Tensor, heads: int, weight: Tensor | None) -> tuple[Shape, dict[str, int]]:
    channels = u.shape[2] // heads - 2
    shape = shape_of_heads(heads, channels, u.dtype)
    assert shape is not None
    return shape, {"HEADS": heads, "CHANNELS": channels, "WEIGHTED": int(weight is not None)}
