r"""Scattering moments of a batch of graphs as one operator.

The second order is not written to memory: a graph is diffused, filtered, rectified, diffused again
and reduced to its moments while it is in cache. With :math:`P` the walk of laziness ½,

.. math::
    \Psi_j u = \sum_{s < m} f_{js}\, P^s (I - P)\, u, \qquad
    f = \text{wavelet weights} \cdot \text{lazy mixture} ,

so the kernels know neither another laziness nor the form of the scales: whatever is learned there
reaches them, and gets its gradient, through :math:`f`. Backward is a recurrence of the same walk,

.. math::
    g_s = \sum_k f_{ks}\, \bar g_k + P^\top g_{s+1}, \qquad
    \partial f_{ks} = \langle \bar g_k, P^s (I - P) u \rangle, \qquad
    \partial u = (I - P^\top)\, g_0 ,

where :math:`\bar g_k` is the gradient of :math:`\Psi_k u`. The states of the second order are
recomputed instead of stored. Edge weights get no gradient here, and signals get one for learned
scales on the CPU; elsewhere there is :mod:`legs.kernels.bank`.

Nodes may be merged classes of equivalent ones (:func:`legs.data.merge_equivalent`): sums over nodes
count each by its multiplicity. A row's weights are then numbers of neighbors of each class; the
walk and its adjoint are those of all nodes, both being equal at equivalent nodes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from legs.functional import beyond_base, lazy_mixture, select_scales, wavelet_weights
from legs.functional.diffusion import BASE
from legs.functional.scattering import PathPolicy
from legs.kernels import cpu
from legs.kernels.csr import Batch
from legs.kernels.gpu import launch
from legs.kernels.mapped import Folded

Backend = Literal["auto", "reference", "fused"]

# By device: nodes of a batch from which the fused operator pays (it is compiled at first use, in
# seconds), and nodes per graph up to which it does (a graph is the work of one thread on the CPU,
# of one block on the GPU). Measured: docs/performance.md.
CROSSOVERS = {"cpu": (1_000, 1_000_000), "cuda": (1_000, 4_000)}

MAX_LOGITS = 4096  # per model, which a GPU keeps in shared memory

_default: Backend = "auto"


class use:
    """Deprecated: pass ``backend=`` to :class:`legs.nn.Scattering`.

    Sets what ``backend="auto"`` means from here on, or within a ``with`` block: ``"auto"``,
    ``"reference"``, or ``"fused"`` for the fused operator wherever it applies.
    """

    def __init__(self, backend: Backend) -> None:
        global _default
        warnings.warn(
            "legs.kernels.use is deprecated; pass backend= to Scattering",
            DeprecationWarning,
            stacklevel=2,
        )
        check_backend(backend)
        self.before, _default = _default, backend

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        global _default
        _default = self.before


def check_backend(backend: str) -> None:
    """Raises :class:`ValueError` for an unknown name."""
    if backend not in ("auto", "reference", "fused"):
        raise ValueError(f'backend must be "auto", "reference" or "fused"; got {backend!r}')


def use_fused(
    backend: Backend,
    x: Tensor,
    edge_weight: Tensor | None = None,
    num_graphs: int = 1,
    multiplicity: Tensor | None = None,
    unsupported: str | None = None,
    repeated: bool = False,
) -> bool:
    """Whether to use the fused operator: the one place where that is decided.

    It depends on the backend, sizes and types alone, never on what ran before: the same call gives
    the same bits.

    Args:
        backend: ``"auto"`` for the fused operator where it applies and pays, ``"reference"`` for
            never, ``"fused"`` for always: raises :class:`ValueError` where it does not apply.
        x: signals, ``[nodes, channels]``.
        edge_weight: ``[edges]`` or ``None``.
        num_graphs: number of graphs (default 1).
        multiplicity: of merged nodes, ``[nodes]``: they are computed as all of them would be.
        unsupported: what the module computes that the operator cannot.
        repeated: whether many batches follow, for which it pays to compile (default ``False``).
    """
    choice = _default if backend == "auto" else backend
    if choice == "reference":
        return False
    reason = unsupported or _why_not(x, edge_weight)
    if reason and backend == "fused":
        raise ValueError(f'backend="fused" is not possible: {reason}; use backend="auto"')
    if reason or choice == "fused":
        return not reason
    device, nodes = x.device.type, x.shape[0]
    least, largest = CROSSOVERS[device]
    if nodes > largest * max(num_graphs, 1):
        return False
    if multiplicity is None or repeated:
        return repeated or nodes >= least
    # Reading a number back from a GPU takes longer than compiling its kernels is worth.
    return device != "cpu" or float(multiplicity.sum()) >= least


def _why_not(x: Tensor, edge_weight: Tensor | None) -> str | None:
    if torch.compiler.is_compiling():
        return "torch.compile traces plain PyTorch"
    if x.dtype not in (torch.float32, torch.float64):
        return f"x is {x.dtype}, not float32 or float64"
    if edge_weight is not None and needs_gradient(edge_weight):
        return "edge_weight needs a gradient"
    if x.device.type == "cpu":
        return None if cpu.available() else "numba is not installed (pip install torch-legs[fast])"
    if x.device.type == "cuda":
        return None if launch.available() else "kernels cannot be compiled for this GPU"
    return f"there are no kernels for {x.device.type} devices"


def needs_gradient(tensor: Tensor) -> bool:
    """Whether a tensor needs a gradient, or may: compilers and ``torch.func`` hide it."""
    if torch.compiler.is_compiling():
        return True
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return wrapped or (tensor.requires_grad and torch.is_grad_enabled())


def bank_filters(
    cumulative: Tensor, laziness: Tensor | float = 0.5, wavelets: bool = True, lowpass: bool = True
) -> Tensor:
    r"""The wavelets, then the low-pass, by differences, ``[bands, steps + 1]``.

    Column 0 multiplies :math:`x`, column :math:`k` multiplies :math:`P^{k-1} (I - P) x` with
    :math:`P` of laziness ½. One more axis in front if every channel has its own laziness or scales.
    """
    rows = wavelet_weights(cumulative) if wavelets else cumulative[..., :0, :]
    first = torch.zeros_like(rows[..., :1])
    if lowpass:
        rows = torch.cat([rows, cumulative[..., -1:, :] - 1], dim=-2)
        first = torch.cat([first, torch.ones_like(cumulative[..., :1, :1])], dim=-2)
    if isinstance(beyond := beyond_base(laziness), Tensor) or beyond != 0:
        mixture = lazy_mixture(beyond, cumulative.shape[-1], like=rows)
        # Not a matrix product: those may be set to round their factors.
        rows = (rows.unsqueeze(-1) * mixture.unsqueeze(-3)).sum(-2)
    return torch.cat([first.expand(*rows.shape[:-1], 1), rows], dim=-1)


def mixed_filters(cumulative: Tensor, laziness: Tensor | float, channels: int) -> Tensor:
    r"""The filters :math:`f`, ``[channels, J, m]``, of scales in cumulative form ``[J, m]``."""
    mixed = bank_filters(cumulative, laziness, lowpass=False)[..., 1:]
    return mixed.expand(channels, *mixed.shape[-2:])


def scattering_moments(
    batch: Batch,
    filters: Tensor,
    policy: PathPolicy = "increasing",
    *,
    logits: bool = False,
    reference: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Normalized moments of all paths up to order two.

    Args:
        batch: the graphs.
        filters: ``[channels, J, m]``, from :func:`mixed_filters`. Differentiable once, and may be
            mapped over (:func:`torch.func.vmap`).
        policy: ``"increasing"`` (default) or ``"all"``.
        logits: whether ``filters`` are the logits ``[J, m]`` of ordered learned scales instead, of
            a walk of laziness ½ (default ``False``).
        reference: the same function of ``filters`` and ``batch.x``, for second derivatives. If it
            is given, signals get a gradient, too; on the CPU, and not under transforms.

    Returns:
        ``[graphs, paths, channels, 4]``.
    """
    if filters.device.type == "cpu" and not torch._C._are_functorch_transforms_active():
        signals = reference is not None and batch.x.requires_grad
        keep = torch.is_grad_enabled() and (signals or filters.requires_grad)
        record: Any = [] if keep else None
        args = (filters, batch.x, logits, policy, batch, reference, record)
        out: Tensor = super(torch.autograd.Function, _Single).apply(*args)  # type: ignore[no-untyped-call]
        return out
    if logits and filters.device.type == "cuda" and filters.numel() > MAX_LOGITS:
        filters, logits = mixed_filters(select_scales(filters), BASE, batch.x.shape[1]), False
    return _Scatter.single(filters, logits, policy, *batch)


class _Single(torch.autograd.Function):
    """Moments of one model on the CPU; what forward has computed serves backward."""

    @staticmethod
    def forward(ctx: Any, filters: Tensor, x: Tensor, logits: bool, *args: Any) -> Tensor:
        policy, batch, _, record = args
        mixed, scales = filters.unsqueeze(0), None
        if logits:  # the kernel computes the filters
            scales, mixed = mixed, torch.empty(1, x.shape[1], *filters.shape, dtype=x.dtype)
        ctx.args = (mixed, logits, *args)
        ctx.save_for_backward(filters, x, batch.powers, batch.multiplicity)
        out: Tensor = _kernels("cpu")[0].forward(batch, mixed, policy, record, scales)
        return out.squeeze(0)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        filters, x, *_ = ctx.saved_tensors
        (grad,), (mixed, logits, policy, batch, reference, record) = grads, ctx.args
        needs, by_x = ctx.needs_input_grad, None
        if not torch.is_grad_enabled():
            kernels, bank = _kernels("cpu")
            if reference is not None and needs[1]:
                by_x = torch.empty(x.shape, dtype=x.dtype)
            change = kernels.backward(batch, mixed, grad, grad, policy, record, by_x)
            change = bank.backward(filters.unsqueeze(0), change) if logits else change
            by_filters = change.squeeze(0)
        elif reference is None:
            many = (grad.unsqueeze(0), grad.unsqueeze(0), filters.unsqueeze(0))
            by_filters = _ScatterGrad.call(*many, logits, policy, *batch).squeeze(0)
        else:
            inputs = (x, filters) if needs[0] else (x,)
            out = reference(filters, x)
            by_x, *rest = torch.autograd.grad(out, inputs, grad, create_graph=True)
            by_filters = rest[0] if rest else None
        return by_filters if needs[0] else None, by_x, *[None] * 5


class _Scatter(Folded):
    """Moments ``[models, graphs, paths, channels, 4]``."""

    once, kept = False, 0

    @staticmethod
    def forward(filters: Tensor, logits: bool, policy: PathPolicy, *tensors: Any) -> Tensor:
        batch, (kernels, bank) = Batch(*tensors), _kernels(filters.device.type)
        if logits:
            filters = bank.forward(filters, batch.x.shape[1])
        out: Tensor = kernels.forward(batch, filters, policy)
        return out

    @staticmethod
    def gradients(grad: Tensor, needs: Any, filters: Tensor, *rest: Any) -> tuple[Tensor]:
        *others, out = rest
        return (_ScatterGrad.call(grad, out, filters, *others),)


class _ScatterGrad(Folded):
    """The gradient of the filters, or of the logits."""

    mapped, once = 3, False

    @staticmethod
    def forward(
        grad: Tensor, out: Tensor, filters: Tensor, logits: bool, policy: PathPolicy, *tensors: Any
    ) -> Tensor:
        batch, (kernels, bank) = Batch(*tensors), _kernels(filters.device.type)
        mixed = bank.forward(filters, batch.x.shape[1]) if logits else filters
        change: Tensor = kernels.backward(batch, mixed, grad, out, policy)
        return bank.backward(filters, change) if logits else change

    @staticmethod
    def gradients(*args: Any) -> Any:
        raise RuntimeError(
            "the fused operator has no second derivatives; compute them with "
            'Scattering(..., backend="reference")'
        )


@cache
def _kernels(device: str) -> tuple[Any, Any]:
    """The modules with the operator, and with the filters of logits, for a device."""
    if device == "cuda":
        from legs.kernels.gpu import filters as gpu_filters
        from legs.kernels.gpu import scattering as gpu_scattering

        return gpu_scattering, gpu_filters
    from legs.kernels.cpu import filters as cpu_filters
    from legs.kernels.cpu import scattering

    return scattering, cpu_filters
