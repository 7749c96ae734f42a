from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.resolver import aggregation_resolver

from legs import functional as fn
from legs import kernels
from legs.functional.diffusion import BASE
from legs.functional.scales import Ordering
from legs.functional.scattering import PathPolicy
from legs.kernels import bank
from legs.kernels.fused import make_batch, mixed_filters, scattering_moments
from legs.nn.columns import SIZE_COLUMNS, Column, name_columns
from legs.nn.moments import Moments
from legs.nn.scale_selection import ScaleSelection
from legs.nn.walk import LazyWalk


class Scattering(nn.Module):
    r"""Geometric scattering with fixed or learned scales (the LEGS module).

    From `"Learnable Filters for Geometric Scattering Modules"
    <https://arxiv.org/abs/2208.07458>`_: diffusion wavelets
    :math:`\Psi_j = P^{t_j} - P^{t_{j+1}}` of a lazy random walk :math:`P`, cascaded with absolute
    values,

    .. math::
        U_p x = \Psi_{j_k} \big|\Psi_{j_{k-1}} \cdots |\Psi_{j_1} x| \cdots \big|,

    and statistical moments of :math:`|U_p x|` (of :math:`x` itself at order 0) over the nodes. With
    learned scales :math:`P^{t_j}` becomes :math:`\sum_t F_{jt} P^t`,
    :math:`F = \mathrm{softmax}(\Theta)`.

    Args:
        in_channels: number of channels of the input signals.
        scales: ``"learned"`` (default), ``"dyadic"`` or increasing integers.
        num_scales: number :math:`J` of scales (default 5).
        steps: number :math:`m` of diffusion steps (default: 16, or the largest scale).
        order: length of the longest path (default 2).
        paths: ``"increasing"`` (default) for :math:`j_1 < j_2 < \dots`, or ``"all"``.
        lowpass: also :math:`\Phi_J x` and :math:`\Phi_J |U_p x|` (default ``False``).
        ordering: of learned rows. ``"ordered"`` (default) keeps the upper frame bound at 1 whatever
            is learned; ``"softmax"`` is the paper's and may expand.
        laziness: :math:`\alpha \ge ½` of the walk (default 0.5).
        learn_laziness: ``False`` (default), ``True``, or ``"channel"`` for one value a channel.
        aggr: ``"moments"`` (default; normalized, four), a :class:`Moments`, any PyG aggregation or
            its name (``"mean"``, ``"max"``, …), or ``None`` for signed node features.
        size: whether the numbers of nodes and edges of a graph are two more columns, the last
            (default ``False``, as the paper). Normalized moments are averages and do not know them;
            properties that grow with a molecule need them.
        validate: whether the forward checks graphs and batches (default ``True``; skipped while
            compiling). Turn it off where a data set has been checked once.

    Shapes:
        - **input:** signals ``[nodes, in_channels]``, ``edge_index`` ``[2, edges]`` with both
          directions of every edge, ``edge_weight`` ``[edges]``, ``batch`` ``[nodes]`` (sorted)
        - **output:** ``[graphs, out_channels]``, or ``[nodes, out_channels]`` if ``aggr=None``.
          Columns: path by path, then channel, then moment, then size; :meth:`paths` names them

    Sums run in float32 at least: half-precision inputs are computed in float32 and returned in
    their own dtype, and autocast does not apply.

    >>> module = Scattering(in_channels=2)
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> module(torch.rand(3, 2), edge_index).shape
    torch.Size([1, 128])
    >>> module.paths()[-1].name
    'x1.psi3.psi4.kurtosis'
    """

    def __init__(
        self,
        in_channels: int,
        *,
        scales: Literal["learned", "dyadic"] | Sequence[int] = "learned",
        num_scales: int = 5,
        steps: int | None = None,
        order: int = 2,
        paths: PathPolicy = "increasing",
        lowpass: bool = False,
        ordering: Ordering = "ordered",
        laziness: float = 0.5,
        learn_laziness: bool | Literal["channel"] = False,
        aggr: str | Aggregation | None = "moments",
        size: bool = False,
        validate: bool = True,
    ) -> None:
        super().__init__()
        if size and aggr is None:
            raise ValueError("size=True needs an aggregation: nodes have no size (aggr=None)")
        if in_channels < 1:
            raise ValueError(f"in_channels must be at least 1; got {in_channels}")
        if order < 0:
            raise ValueError(f"order must not be negative; got {order}")
        if paths not in ("increasing", "all"):
            raise ValueError(f'paths must be "increasing" or "all"; got {paths!r}')
        self.in_channels = in_channels
        self.order = order
        self.policy: PathPolicy = paths
        self.lowpass = lowpass
        self.validate = validate
        self.selection = ScaleSelection(scales, num_scales, steps, ordering)
        self.walk = LazyWalk(in_channels, laziness, learn_laziness)
        self.aggr: Aggregation | None = (
            Moments() if aggr == "moments" else aggregation_resolver(aggr) if aggr else None
        )
        self._aggr_name = aggr if isinstance(aggr, str) else None
        self._paths = fn.scattering_paths(self.selection.num_scales, order, paths, lowpass)
        self._columns = name_columns(self._paths, in_channels, self.selection.num_scales, self.aggr)
        self.size = size
        if size:
            self._columns += SIZE_COLUMNS

    @property
    def num_paths(self) -> int:
        """Number of scattering paths, order 0 and low-passed ones included."""
        return len(self._paths)

    @property
    def out_channels(self) -> int:
        """Number of output columns."""
        return len(self._columns)

    def paths(self) -> list[Column]:
        """What every output column is: path, channel, moment and name, in order.

        Index :math:`J` in a path stands for the low-pass. ``moment`` is the name of the moment or
        aggregation, empty for node features. Columns that an aggregation mixes belong to no path
        or channel: ``path=()``, ``channel=-1``.
        """
        return list(self._columns)

    def reset_parameters(self) -> None:
        """Back to the start: default scales, initial laziness."""
        self.selection.reset_parameters()
        self.walk.reset_parameters()
        if self.aggr is not None:
            self.aggr.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        powers: Tensor | None = None,
        copies: Tensor | None = None,
    ) -> Tensor:
        """Scatters the signals ``x`` on a graph or a batch of graphs.

        ``powers`` (:meth:`walk_powers` of the same nodes) spares the first order its diffusions.
        ``copies`` tells how many nodes each one stands for, where nodes that are alike have been
        merged (:func:`legs.data.merge_alike`): moments are those of all nodes.
        """
        self._check(x, edge_index, edge_weight, batch, batch_size, merged=copies is not None)
        given = x.dtype
        with torch.autocast(x.device.type, enabled=False):
            if given in (torch.float16, torch.bfloat16):
                x = x.float()
            found = self._scatter(x, edge_index, edge_weight, batch, batch_size, powers, copies)
            if self.size:
                graphs = self._num_graphs(batch, batch_size)
                known = (edge_index, batch, x.shape[0], graphs, edge_weight, copies, found.dtype)
                found = torch.cat([found, fn.graph_size(*known)], dim=1)
            return found.to(given)

    def _scatter(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        batch: Tensor | None,
        batch_size: int | None,
        powers: Tensor | None,
        copies: Tensor | None,
    ) -> Tensor:
        if self._is_usual:
            graphs = self._num_graphs(batch, batch_size)
            if kernels.path_of(x, edge_weight, graphs, copies) != "reference":
                return self._fused(x, edge_index, edge_weight, batch, graphs, powers, copies)
        powers = None if powers is None else powers.to(x.dtype)
        mass, times = x, None
        if copies is not None:
            mass, edge_weight, times = fn.masses(x, edge_index, edge_weight, copies)
            powers = None if powers is None else powers * times.unsqueeze(-1)
        walk = self.walk(edge_index, edge_weight, x.shape[0], x.dtype)
        coefficients = fn.scattering(
            mass,
            walk,
            self._laziness(x.dtype),
            self.selection().to(x.dtype),
            order=self.order,
            policy=self.policy,
            lowpass=self.lowpass,
            powers=powers,
        )
        if times is not None:
            coefficients = coefficients / times.unsqueeze(-1)
        if self.aggr is not None:
            coefficients = self._aggregate(coefficients, x, walk, batch, batch_size, copies)
        return coefficients.flatten(1)

    @property
    def _is_usual(self) -> bool:
        """Whether this is what the fused kernels compute."""
        usual_moments = isinstance(self.aggr, Moments) and self.aggr.kind == "normalized"
        pairs = self.selection.num_scales > 1 or self.policy == "all"
        return usual_moments and pairs and self.order == 2 and not self.lowpass

    def _fused(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        batch: Tensor | None,
        graphs: int,
        powers: Tensor | None,
        copies: Tensor | None,
    ) -> Tensor:
        assert isinstance(self.aggr, Moments)
        powers = None if powers is None else powers.to(x.dtype)
        given = make_batch(x, edge_index, edge_weight, batch, graphs, powers, copies)
        found = scattering_moments(given, self._filters(x.dtype), self.policy)
        return found[..., : self.aggr.order].flatten(1)

    def _filters(self, dtype: torch.dtype) -> Tensor:
        laziness, theta = self._laziness(dtype), self.selection.theta
        usual = isinstance(laziness, float) and laziness == BASE
        usual = usual and self.selection.ordering == "ordered"
        # Of another type, they are rounded as the reference rounds them.
        if usual and theta is not None and theta.dtype == dtype and bank.applies(theta):
            return bank.learned_filters(theta, self.in_channels)
        return mixed_filters(self.selection().to(dtype), laziness, self.in_channels)

    @staticmethod
    def _num_graphs(batch: Tensor | None, batch_size: int | None) -> int:
        if batch is None:
            return 1
        return int(batch[-1]) + 1 if batch_size is None else batch_size

    def _laziness(self, dtype: torch.dtype) -> Tensor | float:
        laziness = self.walk.laziness
        return laziness.to(dtype) if isinstance(laziness, Tensor) else laziness

    def _aggregate(
        self,
        coefficients: Tensor,
        x: Tensor,
        walk: fn.Walk,
        batch: Tensor | None,
        batch_size: int | None,
        copies: Tensor | None,
    ) -> Tensor:
        assert self.aggr is not None
        batch_size = self._num_graphs(batch, batch_size)
        if batch is None:
            batch = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
        sizes = torch.cat([coefficients[:, :1], coefficients[:, 1:].abs()], dim=1)
        if not isinstance(self.aggr, Moments):
            if copies is not None:
                raise ValueError(f"copies of nodes count in moments only, not in {self.aggr!r}")
            pooled: Tensor = self.aggr(sizes.flatten(1), batch, dim_size=batch_size)
            return pooled
        copies = None if copies is None else copies.to(x.dtype)
        energy = fn.signal_energy(x, walk, batch, batch_size, copies).unsqueeze(1)
        return fn.moments(
            sizes,
            batch,
            batch_size,
            kind=self.aggr.kind,
            order=self.aggr.order,
            energy=energy,
            copies=copies,
        )

    def _check(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        batch: Tensor | None,
        batch_size: int | None,
        merged: bool,
    ) -> None:
        if x.dim() != 2 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"x must have shape [nodes, {self.in_channels}] (in_channels={self.in_channels}); "
                f"got {list(x.shape)}"
            )
        if not x.is_floating_point():
            raise ValueError(f"x must be floating point; got {x.dtype} (use x.float())")
        if x.shape[0] == 0:
            raise ValueError("x has no rows: an empty batch has nothing to scatter")
        if self.validate and not torch.compiler.is_compiling():
            fn.check_graph(edge_index, edge_weight, x.shape[0])
            if not merged:  # classes of nodes have unequally many neighbours in each other
                fn.check_undirected(edge_index, edge_weight, x.shape[0])
            if batch is not None:
                fn.check_batch(batch, x.shape[0], batch_size, edge_index)

    def walk_powers(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        """What the first order needs and no parameter changes, ``[nodes, steps, in_channels]``.

        Computed once for a data set, it serves every epoch and every model of the same ``steps``.
        """
        walk = self.walk(edge_index, edge_weight, x.shape[0], x.dtype)
        return fn.walk_powers(x, walk, self.selection.steps)

    def scale_weights(self) -> Tensor:
        """The present selection matrix ``F``, ``[num_scales, steps]``."""
        return fn.scale_weights(self.selection())

    def expected_scales(self) -> Tensor:
        """The mean diffusion time of every scale, ``[num_scales]``."""
        return fn.expected_scales(self.selection())

    def frame_bounds(self) -> tuple[Tensor, Tensor]:
        r"""Exact lower and upper frame bound of the present bank over :math:`[2\alpha - 1, 1]`.

        In float64: scalars, or ``[in_channels]`` if every channel has its laziness.
        """
        theta = self.selection.theta
        if theta is None:
            cumulative = self.selection()
        else:
            cumulative = fn.select_scales(theta.detach().double(), self.selection.ordering)
        laziness = torch.as_tensor(self.walk.laziness).detach()
        bounds = [fn.frame_bounds(cumulative, float(a)) for a in laziness.flatten()]
        lower, upper = torch.tensor(bounds, dtype=torch.float64).unbind(1)
        return lower.view(laziness.shape), upper.view(laziness.shape)

    def harden(self) -> Scattering:
        r"""A copy with fixed scales: increasing ones that maximise :math:`\sum_j \log F_{jt_j}`."""
        weights = self.scale_weights().detach()
        hardened = copy.deepcopy(self)
        fixed = ScaleSelection(fn.harden_scales(weights), steps=self.selection.steps)
        hardened.selection = fixed.to(weights)
        return hardened

    def describe(self) -> dict[str, Any]:
        """The arguments to build such a module again, as JSON values."""
        aggr: Any = self._aggr_name
        if isinstance(self.aggr, Moments):
            aggr = {"kind": self.aggr.kind, "order": self.aggr.order}
        elif self.aggr is not None and aggr is None:
            raise ValueError(
                f"Scattering with aggr={self.aggr!r} cannot be saved; give the aggregation by name"
            )
        return {
            "in_channels": self.in_channels,
            "scales": "learned" if self.selection.learned else list(self.selection.initial),
            "num_scales": self.selection.num_scales,
            "steps": self.selection.steps,
            "order": self.order,
            "paths": self.policy,
            "lowpass": self.lowpass,
            "ordering": self.selection.ordering,
            "laziness": self.walk.initial,
            "learn_laziness": self.walk.learn,
            "aggr": aggr,
            "size": self.size,
            "validate": self.validate,
        }

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.selection!r}, order={self.order}, "
            f"paths={self.policy}, lowpass={self.lowpass}, {self.walk!r}, aggr={self.aggr!r}"
            f"{', size=True' if self.size else ''})"
        )
