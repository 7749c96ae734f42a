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
from importlib import import_module
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
    rows = _with_laziness(rows, laziness)
    return torch.cat([first.expand(*rows.shape[:-1], 1), rows], dim=-1)


def mixed_filters(cumulative: Tensor, laziness: Tensor | float, channels: int) -> Tensor:
    r"""The filters :math:`f`, ``[channels, J, m]``, of scales in cumulative form ``[J, m]``."""
    rows = _with_laziness(wavelet_weights(cumulative), laziness)
    return rows.expand(channels, *rows.shape[-2:])


def _with_laziness(rows: Tensor, laziness: Tensor | float) -> Tensor:
    """Weights of powers of the walk of laziness ½, from those of another walk."""
    beyond = beyond_base(laziness)
    if not isinstance(beyond, Tensor) and beyond == 0:
        return rows
    mixture = lazy_mixture(beyond, rows.shape[-1], like=rows)
    # Not a matrix product: those may be set to round their factors.
    return (rows.unsqueeze(-1) * mixture.unsqueeze(-3)).sum(-2)


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
        ``[graphs, columns]``: path by path, then channel, then moment.
    """
    if logits and filters.device.type == "cuda" and filters.numel() > MAX_LOGITS:
        filters, logits = mixed_filters(select_scales(filters), BASE, batch.x.shape[1]), False
    needed = filters.requires_grad or (reference is not None and batch.x.requires_grad)
    keep = needed and torch.is_grad_enabled()
    out: Tensor = _Scatter.call(filters, batch.x, logits, policy, batch, reference, keep)[0]
    return out


class _Record(list[Any]):
    """What forward leaves for backward."""


class _Scatter(Folded):
    """Moments ``[models, graphs, columns]``, and what serves backward."""

    once, first_output = False, 0

    @staticmethod
    def compute(
        filters: Tensor, x: Tensor, logits: bool, policy: PathPolicy, batch: Batch, *options: Any
    ) -> tuple[Tensor, _Record | None]:
        record = _Record() if options[-1] else None
        kernels = kernels_for(filters, "scattering")
        return kernels.forward(batch, filters, policy, record, logits).flatten(2), record

    @staticmethod
    def gradients(grad: Tensor, needs: Any, filters: Tensor, x: Tensor, *rest: Any) -> list[Any]:
        *others, reference, _, out, record = rest
        if reference is not None and torch.is_grad_enabled():
            inputs = (x, filters) if needs[0] else (x,)
            again = reference(filters.squeeze(0), x)
            by_x, *by_filters = torch.autograd.grad(again, inputs, grad[0], create_graph=True)
            return [by_filters[0].unsqueeze(0) if needs[0] else None, by_x]
        signals = torch.empty(x.shape, dtype=x.dtype) if needs[1] else None
        args = (grad, out, filters, *others, record, signals)
        if torch.is_grad_enabled():
            return [_ScatterGrad.call(*args, stacked=True), signals]
        return [_ScatterGrad.compute(*args), signals]


class _ScatterGrad(Folded):
    """The gradient of the filters, or of the logits; that of signals is written."""

    mapped, once = 3, False

    @staticmethod
    def compute(
        grad: Tensor,
        out: Tensor,
        filters: Tensor,
        logits: bool,
        policy: PathPolicy,
        batch: Batch,
        *rest: Any,
    ) -> Tensor:
        kernels = kernels_for(filters, "scattering")
        by_filters: Tensor = kernels.backward(batch, filters, grad, out, policy, *rest, logits)
        return by_filters

    @staticmethod
    def gradients(*args: Any) -> Any:
        raise RuntimeError(
            "the fused operator has no second derivatives; compute them with "
            'Scattering(..., backend="reference")'
        )


def kernels_for(x: Tensor, name: str) -> Any:
    """A module of kernels for the device of ``x``; imported at first use, as numba is an extra."""
    return import_module(f"legs.kernels.{'gpu' if x.device.type == 'cuda' else 'cpu'}.{name}")
