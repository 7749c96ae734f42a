r"""The layers of the snowball network as one operation.

Every layer reads the sums over neighbours of all layers before it. These lie side by side in one
matrix ``seen``, into which they are summed, so that a layer multiplies its first columns as they
are; gradients of all layers lie side by side in another. Nothing is put together by copying, and no
sum of gradients is written: what autograd would do about blocks that many layers read is one
product of neighbouring columns,

.. math::
    z_l = S_{\le l} W_l^\top, \qquad
    \partial S_k = [\partial z_k, \dots, \partial z_n]\, [W_{k,k}; \dots; W_{n,k}] .

Nodes may stand for several that are alike: sums of gradients over neighbours have scales of their
own then (:func:`legs.kernels.messages_functions.adjoint_scales`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from legs.kernels import messages_cuda
from legs.kernels import messages_reference as reference
from legs.kernels.linear import weight_gradient
from legs.kernels.messages import Graphs
from legs.kernels.messages_functions import adjoint_scales, applies, kernels_of
from legs.kernels.transforms import fixed_signatures

# Blocks of columns start at multiples of so many numbers, as far as their widths allow it.
ALIGNED = 4


def snowball(
    states: Tensor,
    graphs: Graphs,
    scale: Tensor,
    layers: list[tuple[Tensor, Tensor]],
    share: Tensor,
    drops: list[Tensor],
) -> Tensor:
    """Sums over graphs of the last layer's states.

    Args:
        states: ``[nodes, in_channels]``.
        graphs: the batch.
        scale: ``[nodes]``; the adjacency is multiplied by it from both sides.
        layers: weight and bias of each, ``[hidden, columns]`` and ``[hidden]``.
        share: ``[nodes, 1]``, of each node in the sum (of all nodes that it stands for).
        drops: what the states after each layer but the last are multiplied by,
            ``[nodes, hidden]``; empty for nothing.

    Returns:
        ``[graphs, hidden]``. Differentiable once; may be mapped over (:func:`torch.func.vmap`).
    """
    weights, biases = zip(*layers, strict=True)
    own = [tensor.unsqueeze(0) for tensor in (states, *weights, *biases, *drops)]
    weight = None if graphs.weight is None else graphs.weight.to(states.dtype)
    rows = (graphs.rowptr, graphs.col, graphs.row, weight)
    copies = None if graphs.copies is None else graphs.copies.to(states.dtype)
    back = adjoint_scales(scale, scale, copies)
    given = Given(*rows, scale, *back, share, graphs.ptr, graphs.batch)
    out, *_ = _Snowball.apply(len(layers), *given, *own)  # type: ignore[no-untyped-call]
    found: Tensor = out.squeeze(0)
    return found


class Given(NamedTuple):
    """What is the same for all models."""

    rowptr: Tensor
    col: Tensor
    row: Tensor
    weight: Tensor | None
    scale: Tensor
    pre_back: Tensor | None  # scales of gradients
    post_back: Tensor | None
    share: Tensor
    ptr: Tensor
    batch: Tensor

    def aggregate(self, h: Tensor, out: Tensor | None = None) -> Tensor:
        """Sums over neighbours and the node, into columns of a wider matrix if it is given."""
        return self._aggregate(h, out, self.scale, self.scale)

    def aggregate_back(self, grad: Tensor) -> Tensor:
        """From gradients of these sums to those of the states."""
        return self._aggregate(grad, None, self.pre_back, self.post_back)

    def _aggregate(
        self, h: Tensor, out: Tensor | None, pre: Tensor | None, post: Tensor | None
    ) -> Tensor:
        if applies(h):
            graph = (self.rowptr, self.col, self.weight, pre, post)
            return kernels_of(h).aggregate(h, None, *graph, True, 0, out)
        found = reference.aggregate(h, self.row, self.col, self.weight, pre, post, 1.0, False)
        return found if out is None else out.copy_(found)

    def tanh(self, z: Tensor, bias: Tensor, weight: Tensor | None, pooled: bool) -> Tensor:
        """Of states and bias, after a narrow layer if there is a weight; pooled, if wanted."""
        share = self.share if pooled else None
        if applies(z):
            return kernels_of(z).rows_forward(
                z, bias, None, None, weight, share, self.ptr, "tanh", 0.0
            )
        out = reference.activate(z, bias, None, None, "tanh", 0.0)
        if share is None:
            return out
        return reference.pool(out, share, self.batch, len(self.ptr) - 1)

    def tanh_backward(
        self,
        grad: Tensor,
        z: Tensor,
        bias: Tensor,
        weight: Tensor | None,
        pooled: bool,
        out: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the bias and, after a narrow layer, of the columns of its weight.

        That of the states before the activation goes into ``out``, columns of a wider matrix.
        """
        share = self.share if pooled else None
        if applies(z):
            layer = (bias, None, None, weight, share, self.batch)
            _, terms = kernels_of(z).rows_backward(grad, z, *layer, "tanh", 0.0, False, out)
            return terms[:, 0], terms[:, 1:]
        assert out is not None
        if share is not None:
            grad = grad.index_select(1, self.batch) * share
        out.copy_(grad * (1 - (z + bias.unsqueeze(1)).tanh().square()))
        return out.sum(1), out[:, :0]


class Sizes(NamedTuple):
    """Where blocks of columns lie."""

    inputs: int
    hidden: int
    layers: int

    @property
    def lead(self) -> int:
        """Columns of the first block: as many zeros as it takes, then the inputs."""
        return self.inputs + -self.inputs % ALIGNED

    def end(self, layer: int) -> int:
        """Where the columns end that a layer reads."""
        return self.lead + layer * self.hidden

    def block(self, layer: int) -> slice:
        """Columns that come from the states after a layer."""
        return slice(self.end(layer), self.end(layer + 1))

    def rows(self, layer: int) -> slice:
        """What belongs to the results of a layer."""
        return slice(layer * self.hidden, (layer + 1) * self.hidden)


class _Snowball(torch.autograd.Function):
    """Pooled states; all that is seen, all weights in one, and what goes into every activation."""

    @staticmethod
    def forward(layers: int, *tensors: Any) -> tuple[Tensor, ...]:
        given, states, weights, biases, drops = _sorted(layers, tensors)
        models, nodes, inputs = states.shape
        sizes = Sizes(inputs, weights[0].shape[1], layers)
        last = layers - 1
        all_weights = states.new_zeros(models, sizes.hidden * layers, sizes.end(last))
        for number, weight in enumerate(weights):
            columns = slice(sizes.lead - inputs, sizes.end(number))
            all_weights[:, sizes.rows(number), columns] = weight
        seen = states.new_empty(models, nodes, sizes.end(last))
        seen[..., : sizes.lead - inputs] = 0
        first = given.aggregate(states)
        seen[..., sizes.lead - inputs : sizes.lead] = first
        kept, narrow = [], _narrow(states, weights[0])
        for number, bias in enumerate(biases):
            if number == 0 and narrow is not None:
                kept.append(first)
            else:
                weight = all_weights[:, sizes.rows(number), : sizes.end(number)]
                kept.append(torch.bmm(seen[..., : sizes.end(number)], weight.mT))
            new = given.tanh(kept[-1], bias, None if number else narrow, number == last)
            if number < last:
                new = new * drops[number] if drops else new
                given.aggregate(new, seen[..., sizes.block(number)])
        return new, seen, all_weights, *kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.layers, *tensors = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # zeros for all of these
        ctx.save_for_backward(*output[1:], *tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[1 + len(Given._fields)]
        found = _SnowballGrad.apply(ctx.layers, wanted, grads[0], *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        before, after = 1 + len(Given._fields), len(ctx.needs_input_grad)
        none = [None] * (after - before - len(found))
        return *[None] * before, *found, *none

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], *inputs: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        shared = 1 + len(Given._fields)
        own = _folded(info.batch_size, in_dims, inputs, shared)
        out = _Snowball.apply(*inputs[:shared], *own)  # type: ignore[no-untyped-call]
        return tuple(x.unflatten(0, (info.batch_size, -1)) for x in out), (0,) * len(out)


class _SnowballGrad(torch.autograd.Function):
    """Gradients of states (if they are wanted), weights and biases."""

    @staticmethod
    def forward(
        layers: int, wanted: bool, grad: Tensor, seen: Tensor, all_weights: Tensor, *tensors: Any
    ) -> tuple[Tensor | None, ...]:
        kept = tensors[:layers]
        given, states, weights, biases, drops = _sorted(layers, tensors[layers:])
        models, nodes, inputs = states.shape
        sizes = Sizes(inputs, weights[0].shape[1], layers)
        last = layers - 1
        changes = seen.new_empty(models, nodes, sizes.hidden * layers)
        of_weights, of_biases, narrow = [], [], _narrow(states, weights[0])
        for number in reversed(range(layers)):
            if number < last:
                # From all layers that have read what came of this one.
                later = slice(sizes.rows(number + 1).start, None)
                grad = given.aggregate_back(
                    torch.bmm(changes[..., later], all_weights[:, later, sizes.block(number)])
                )
                grad = grad * drops[number] if drops else grad
            here = changes[..., sizes.rows(number)]
            alone = number == 0 and narrow is not None
            known = (kept[number], biases[number], narrow if alone else None, number == last)
            to = None if alone and not wanted else here
            of_bias, columns = given.tanh_backward(grad, *known, to)
            of_biases.append(of_bias)
            if alone:
                of_weights.append(columns.mT)
            else:
                change = weight_gradient(here, seen[..., : sizes.end(number)])
                of_weights.append(change[..., sizes.lead - inputs :])
        of_states = None
        if wanted:
            own = all_weights[..., sizes.lead - inputs : sizes.lead]
            of_states = given.aggregate_back(torch.bmm(changes, own))
        return of_states, *reversed(of_weights), *reversed(of_biases)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(
            "the faster way of the snowball network has no second derivatives; compute them under "
            'legs.kernels.use("reference")'
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], *inputs: Any
    ) -> tuple[tuple[Tensor | None, ...], tuple[int | None, ...]]:
        layers, wanted, *_ = inputs
        first = 5 + layers  # of what is the same for all models
        end = first + len(Given._fields)
        before = _folded(info.batch_size, in_dims[:first], inputs[:first], 2)
        after = _folded(info.batch_size, in_dims, inputs, end)
        known = (layers, wanted, *before, *inputs[first:end], *after)
        out = _SnowballGrad.apply(*known)  # type: ignore[no-untyped-call]
        found = tuple(None if x is None else x.unflatten(0, (info.batch_size, -1)) for x in out)
        return found, tuple(None if x is None else 0 for x in found)


def _narrow(states: Tensor, weight: Tensor) -> Tensor | None:
    """The first layer's weight, if the layer is done row by row and its result never written."""
    _, hidden, inputs = weight.shape
    on_gpu = messages_cuda.applies(states)
    fits = on_gpu and messages_cuda.is_narrow(inputs, hidden, states.dtype)
    return weight if fits else None


def _sorted(
    layers: int, tensors: tuple[Any, ...]
) -> tuple[Given, Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """What is given, states, weights, biases and drops."""
    shared = len(Given._fields)
    given, (states, *own) = Given(*tensors[:shared]), tensors[shared:]
    return given, states, own[:layers], own[layers : 2 * layers], own[2 * layers :]


def _folded(
    size: int, in_dims: tuple[Any, ...], inputs: tuple[Any, ...], first: int
) -> list[Tensor]:
    """The inputs from ``first`` on, with mapped models folded into their first axis."""
    found = []
    for x, dim in zip(inputs[first:], in_dims[first:], strict=True):
        leading = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
        found.append(leading.flatten(0, 1))
    return found


fixed_signatures(_Snowball, _SnowballGrad)
