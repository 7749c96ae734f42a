from __future__ import annotations

import copy
import warnings
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.resolver import aggregation_resolver

from legs import functional as fn
from legs.functional.bank import OPERATORS as WALKS
from legs.functional.diffusion import BASE, Walk
from legs.functional.moments import count_graphs
from legs.functional.nonlinearity import Nonlinearity, band_parts
from legs.functional.operators import OperatorLike, check_name, is_complex
from legs.functional.scales import Ordering
from legs.functional.scattering import PathPolicy
from legs.kernels.bank import Graph, signal_energy, wavelet_transform
from legs.kernels.csr import Batch, check_graphs, make_batch
from legs.kernels.op import (
    Backend,
    check_backend,
    mixed_filters,
    needs_gradient,
    scattering_moments,
    use_fused,
)
from legs.nn.adjacency import prepare_operator, read_edges
from legs.nn.columns import SIZE_COLUMNS, Column, name_columns
from legs.nn.moments import Moments
from legs.nn.scale_selection import Scales, ScaleSelection
from legs.nn.walk import LazyWalk

# Old names of options, which models saved before have.
RENAMED = {"paths": "path_policy", "size": "append_graph_size"}


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)


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
        in_channels: number of channels of the input signals, or -1 to read it off the first input.
        scales: ``"learned"`` (default), ``"dyadic"``, ``"infogain"`` (see :meth:`fit_scales`), or
            increasing numbers, at least 1; between integers, powers are interpolated.
        num_scales: number :math:`J` of scales (default 5).
        steps: number :math:`m` of diffusion steps (default: 16, or the largest scale).
        order: length of the longest path (default 2).
        path_policy: ``"increasing"`` (default) for :math:`j_1 < j_2 < \dots`, or ``"all"``.
        lowpass: also :math:`\Phi_J x` and :math:`\Phi_J |U_p x|` (default ``False``).
        ordering: of learned rows. ``"ordered"`` (default) keeps the upper frame bound at 1 whatever
            is learned; ``"softmax"`` is the paper's and may expand.
        laziness: :math:`\alpha \ge ½` of the walk (default 0.5); ``"heat"`` has none.
        learn_laziness: ``False`` (default), ``True``, or ``"channel"`` for one value per channel.
        operator: what diffuses: ``"walk"`` (default, the paper's), ``"row"``, ``"symmetric"``,
            ``"heat"``, ``"directed"``, or one of your own: see :mod:`legs.functional.operators` for
            formulas, inner products and spectra. Only ``"directed"`` takes directed graphs.
        nonlinearity: between wavelets: ``"abs"`` (default), ``"relu-pair"`` for
            :math:`\mathrm{ReLU}(\pm u)` as two signals, ``"none"``, or a function of a tensor; see
            :mod:`legs.functional.nonlinearity`.
        aggr: ``"moments"`` (default; normalized, four), a :class:`Moments`, any PyG aggregation or
            its name (``"mean"``, ``"max"``, …), or ``None`` for node features: signed
            :math:`U_p x` for ``"abs"`` of a real operator, else what the nonlinearity makes of it.
        flatten: whether the columns are one axis (default). ``False``, with moments or
            ``aggr=None``: ``[graphs or nodes, paths, channels, moments]``, nodes without moments.
        append_graph_size: whether the numbers of nodes and edges of a graph are two more columns,
            the last (default ``False``, as the paper). Normalized moments are averages and do not
            know them; properties that grow with a molecule need them.
        backend: ``"auto"`` (default) for the fused operator of :mod:`legs.kernels` where it applies
            and pays; ``"reference"`` for plain PyTorch always; ``"fused"`` for the operator always:
            an error says why where it does not apply.
        validate: whether the forward checks graphs and batches (default ``True``; skipped while
            compiling). Turn it off where a data set has been checked once.

    Shapes:
        - **input:** signals ``[nodes, in_channels]``, ``edge_index`` ``[2, edges]`` with both
          directions of every edge, ``edge_weight`` ``[edges]``, ``batch`` ``[nodes]`` (sorted). In
          place of ``edge_index`` a PyG ``EdgeIndex``, or a sparse adjacency matrix of PyTorch or
          SciPy, whose entries are the weights
        - **output:** ``[graphs, out_channels]``, or ``[nodes, out_channels]`` if ``aggr=None``.
          Columns: path by path, then channel, then moment, then size; :meth:`columns` names them

    Sums run in float32 at least: half-precision inputs are computed in float32 and returned in
    their own dtype, and autocast does not apply.

    >>> module = Scattering(in_channels=2)
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> module(torch.rand(3, 2), edge_index).shape
    torch.Size([1, 128])
    >>> module.columns()[-1].name
    'x1.psi3.psi4.kurtosis'
    """

    def __init__(
        self,
        in_channels: int,
        *,
        scales: Scales = "learned",
        num_scales: int = 5,
        steps: int | None = None,
        order: int = 2,
        path_policy: PathPolicy = "increasing",
        lowpass: bool = False,
        ordering: Ordering = "ordered",
        laziness: float = 0.5,
        learn_laziness: bool | Literal["channel"] = False,
        operator: OperatorLike = "walk",
        nonlinearity: Nonlinearity = "abs",
        aggr: str | Aggregation | None = "moments",
        flatten: bool = True,
        append_graph_size: bool = False,
        backend: Backend = "auto",
        validate: bool = True,
        paths: PathPolicy | None = None,
        size: bool | None = None,
    ) -> None:
        super().__init__()
        if paths is not None:
            path_policy = paths
            _warn("the option paths= of Scattering", "path_policy=")
        if size is not None:
            append_graph_size = size
            _warn("the option size= of Scattering", "append_graph_size=")
        if append_graph_size and aggr is None:
            raise ValueError(
                "append_graph_size=True needs an aggregation: nodes have no size (aggr=None)"
            )
        if in_channels < 1 and in_channels != -1:
            raise ValueError(f"in_channels must be at least 1, or -1; got {in_channels}")
        if in_channels == -1 and learn_laziness == "channel":
            raise ValueError('in_channels must be given where learn_laziness="channel"')
        check_name(operator)
        if operator not in (*WALKS, "directed") and (learn_laziness or laziness != BASE):
            raise ValueError("laziness is that of walks; heat and operators of one's own have none")
        if order < 0:
            raise ValueError(f"order must not be negative; got {order}")
        if path_policy not in ("increasing", "all"):
            raise ValueError(f'path_policy must be "increasing" or "all"; got {path_policy!r}')
        check_backend(backend)
        self.backend: Backend = backend
        self.in_channels = in_channels
        self.order = order
        self.path_policy: PathPolicy = path_policy
        self.lowpass = bool(lowpass)
        self.validate = validate
        self.is_sorted = False  # whether edge_index[1] is; training sets it for its batches
        self.selection = ScaleSelection(scales, num_scales, steps, ordering)
        self.walk = LazyWalk(in_channels, laziness, learn_laziness)
        self.aggr: Aggregation | None = (
            Moments() if aggr == "moments" else aggregation_resolver(aggr) if aggr else None
        )
        # Whether the operator with the moments computes this, if ``x`` needs no gradient.
        paths_of_two = self.selection.num_scales > 1 or path_policy == "all"
        normalized = isinstance(self.aggr, Moments) and self.aggr.kind == "normalized"
        usual = operator in WALKS and nonlinearity == "abs" and not lowpass
        self._is_standard = usual and normalized and order == 2 and paths_of_two
        self._aggr_name = aggr if isinstance(aggr, str) else None
        if not flatten and (append_graph_size or not isinstance(self.aggr, Moments | None)):
            raise ValueError("flatten=False needs moments or aggr=None, and no appended sizes")
        self.flatten = bool(flatten)
        self.operator: Any = operator
        self.nonlinearity = nonlinearity
        self._parts = band_parts(nonlinearity, is_complex(operator))
        policy: Any = (order, path_policy, lowpass, *map(len, self._parts))
        self._paths = fn.scattering_paths(self.selection.num_scales, *policy)
        self.append_graph_size = append_graph_size
        self._columns: list[Column] | None = None
        if in_channels != -1:
            self._name_columns(in_channels)

    def _name_columns(self, in_channels: int) -> None:
        self.in_channels = in_channels
        scales, fixed = self.selection.num_scales, self.selection.fixed
        if fixed is not None and fixed.dim() == 3 and len(fixed) != in_channels:
            raise ValueError(f"there are scales for {len(fixed)} channels, not {in_channels}")
        columns = name_columns(self._paths, in_channels, scales, self.aggr, *self._parts)
        self._columns = columns + (SIZE_COLUMNS if self.append_graph_size else [])

    @property
    def num_paths(self) -> int:
        """Number of scattering paths, order 0 and low-passed ones included."""
        return len(self._paths)

    @property
    def out_channels(self) -> int:
        """Number of output columns."""
        return len(self.columns())

    def columns(self) -> list[Column]:
        """What every output column is: path, channel, moment and name, in order.

        Index :math:`J` in a path stands for the low-pass. Names of ``"relu-pair"`` have the sign of
        each band (``psi0+.psi2-``), those of complex bands ``re`` and ``im``. ``moment`` is the
        name of the moment or aggregation, empty for node features. Columns that an aggregation
        mixes belong to no path or channel: ``path=()``, ``channel=-1``.
        """
        if self._columns is None:
            raise RuntimeError("columns are those of the first input (in_channels=-1)")
        return list(self._columns)

    def paths(self) -> list[Column]:
        """Deprecated: :meth:`columns`."""
        _warn("Scattering.paths()", "columns()")
        return self.columns()

    def reset_parameters(self) -> None:
        """Resets scales, laziness and aggregation."""
        self.selection.reset_parameters()
        self.walk.reset_parameters()
        if self.aggr is not None:
            self.aggr.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        *,
        powers: Tensor | None = None,
        multiplicity: Tensor | None = None,
    ) -> Tensor:
        """Scatters the signals ``x`` on a graph or a batch of graphs.

        Two more arguments are computed once for a data set. ``powers``:
        :func:`legs.functional.walk_powers` of ``x``, which kernels for GPUs read in place of
        diffusing it. ``multiplicity``: how many equivalent nodes each one stands for
        (:func:`legs.data.merge_equivalent`); moments are those of all.
        """
        if self.in_channels == -1 and x.dim() == 2:
            self._name_columns(x.shape[1])
        if x.dim() != 2 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"x must have shape [nodes, {self.in_channels}] (in_channels={self.in_channels}); "
                f"got {list(x.shape)}"
            )
        if not x.is_floating_point():
            raise ValueError(f"x must be floating point; got {x.dtype} (use x.float())")
        if x.shape[0] == 0:
            raise ValueError("x has no rows: an empty batch has nothing to scatter")
        if powers is not None and self.operator != "walk":
            raise ValueError('powers are those of operator="walk"')
        if multiplicity is not None and not self.knows_mass:
            raise ValueError('merged nodes need operator="walk" and a nonlinearity by name')
        edge_index, edge_weight = read_edges(edge_index, edge_weight, x)
        dtype = x.dtype
        with torch.autocast(x.device.type, enabled=False):
            if dtype in (torch.float16, torch.bfloat16):
                x = x.float()
            num_graphs = count_graphs(batch, batch_size)
            graphs = (edge_index, edge_weight, batch, num_graphs)
            fused = self._is_standard and (
                not needs_gradient(x) or (multiplicity is None and self._has_signal_gradient(x))
            )
            if fused and use_fused(self.backend, x, edge_weight, num_graphs, multiplicity):
                more: Any = (powers, multiplicity, self.validate, self.is_sorted, self.operator)
                out = self._fused(make_batch(x, *graphs, *more), graphs)
            else:
                out = self._cascade(x, *graphs, multiplicity)
            if not self.flatten:
                out = out.unflatten(1, (self.num_paths, self.in_channels, -1))
                out = out.squeeze(-1) if self.aggr is None else out
            if self.append_graph_size:
                sizes = (batch, x.shape[0], num_graphs, edge_weight, multiplicity, out.dtype)
                out = torch.cat([out, fn.graph_size(edge_index, *sizes)], dim=1)
            return out if out.dtype == dtype else out.to(dtype)

    def scatter(self, *args: Any, **kwargs: Any) -> Tensor:
        """Deprecated: call the module."""
        _warn("Scattering.scatter()", "the module itself")
        out: Tensor = self(*args, **kwargs)
        return out

    @property
    def knows_mass(self) -> bool:
        """Whether nodes may be merged (``multiplicity``): what a walk and named functions do to the
        mass of equivalent nodes, they do to each."""
        return self.operator == "walk" and not callable(self.nonlinearity)

    def _logits(self, dtype: torch.dtype) -> Tensor | None:
        """Logits, if the scales are those that the operator computes from them."""
        selection, walk = self.selection, self.walk
        theta = selection.theta if selection.ordering == "ordered" else None
        usual = walk.raw_laziness is None and walk.initial == BASE
        # Logits of another dtype are rounded as the reference rounds them.
        return theta if usual and theta is not None and theta.dtype == dtype else None

    def _has_signal_gradient(self, x: Tensor) -> bool:
        """Whether the operator has a gradient in the signals ``x``."""
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            return False
        moments = getattr(self.aggr, "order", 0)
        return x.device.type == "cpu" and moments == 4 and self._logits(x.dtype) is not None

    def _fused(self, batch: Batch, graphs: tuple[Any, Any, Any, Any]) -> Tensor:
        assert isinstance(self.aggr, Moments)
        x, theta = batch.x, self._logits(batch.x.dtype)
        if theta is not None:

            def reference(theta: Tensor, x: Tensor) -> Tensor:
                return self._cascade(x, *graphs, None, fn.select_scales(theta))

            again = reference if x.requires_grad else None
            out = scattering_moments(batch, theta, self.path_policy, logits=True, reference=again)
        else:
            laziness = self._laziness(x.dtype)
            filters = mixed_filters(self.selection().to(x.dtype), laziness, self.in_channels)
            out = scattering_moments(batch, filters, self.path_policy)
        if self.aggr.order < 4:
            out = out.unflatten(1, (-1, 4))[..., : self.aggr.order].flatten(1)
        return out

    def _cascade(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        batch: Tensor | None,
        num_graphs: int,
        multiplicity: Tensor | None = None,
        cumulative: Tensor | None = None,
    ) -> Tensor:
        signal, times, counts = x, None, None
        options: Any = {}
        if multiplicity is not None:
            if self.backend == "fused":
                raise ValueError('backend="fused" computes merged nodes in its moments only')
            if self.validate and not torch.compiler.is_compiling():
                check_graphs(edge_index, edge_weight, batch, len(x), num_graphs, merged=True)
            counts, options = multiplicity.to(x.dtype), {"backend": "reference", "validate": False}
            signal, edge_weight, times = fn.masses(x, edge_index, edge_weight, multiplicity)
        graphs = (edge_index, edge_weight, batch, num_graphs)
        options |= {"is_sorted": self.is_sorted, "lowpass": self.lowpass}
        walk, laziness = self._prepare(x, *graphs, **options)
        options = {"order": self.order, "policy": self.path_policy, "lowpass": self.lowpass}
        options["nonlinearity"] = self.nonlinearity
        if isinstance(walk, Graph):
            options["transform"] = partial(wavelet_transform, operator=self.operator)
        cumulative = self.selection().to(x.dtype) if cumulative is None else cumulative
        bank: Any = (walk, laziness, cumulative)
        coefficients = fn.scattering(signal, *bank, **options)
        if times is not None:
            coefficients = coefficients / times.unsqueeze(-1)
        if self.aggr is None:
            return coefficients.flatten(1)
        if self.nonlinearity == "abs":
            order_0, others = coefficients.split([1, coefficients.shape[1] - 1], dim=1)
            coefficients = torch.cat([order_0, others.abs()], dim=1)
        if not isinstance(self.aggr, Moments):
            if multiplicity is not None:
                raise ValueError(f"merged nodes count in moments only, not in {self.aggr!r}")
            pooled: Tensor = self.aggr(coefficients.flatten(1), batch, dim_size=num_graphs)
            return pooled
        if isinstance(walk, Graph):
            energy = signal_energy(x, walk, batch, num_graphs, self.operator)
        else:
            energy = fn.signal_energy(x, walk, batch, num_graphs, counts)
        options = {"kind": self.aggr.kind, "order": self.aggr.order, "multiplicity": counts}
        options["energy"] = energy.unsqueeze(1)
        return fn.moments(coefficients, batch, num_graphs, **options).flatten(1)

    def _prepare(
        self, x: Tensor, *graphs: Any, lowpass: bool = True, **options: Any
    ) -> tuple[Graph | Walk | fn.DiffusionOperator, Tensor | float]:
        """What diffuses (:func:`legs.nn.adjacency.prepare_operator`), and its laziness."""
        laziness = self._laziness(x.dtype)
        if torch.compiler.is_compiling() and not isinstance(laziness, Tensor):
            # With dynamic shapes a float is a symbolic scalar, which Inductor fails to hand to
            # the backward graph; a tensor is not.
            laziness = torch.full((), laziness, dtype=x.dtype, device=x.device)
        sizes = {"bands": self.selection.num_scales + lowpass, "states": self.selection.steps + 1}
        options = {"backend": self.backend, "validate": self.validate, **sizes, **options}
        return prepare_operator(self.operator, laziness, x, *graphs, **options), laziness

    def _operator(
        self, x: Tensor, edge_index: Tensor | Any, edge_weight: Tensor | None
    ) -> fn.DiffusionOperator:
        """The operator of a graph, in the precision of ``x``."""
        graph = read_edges(edge_index, edge_weight, x)
        return fn.graph_operator(self.operator, *graph, len(x), x.dtype, self._laziness(x.dtype))

    def _laziness(self, dtype: torch.dtype) -> Tensor | float:
        laziness = self.walk.laziness
        return laziness.to(dtype) if isinstance(laziness, Tensor) else laziness

    def scale_weights(self) -> Tensor:
        """The selection matrix ``F``, ``[num_scales, steps]``, or one for each channel."""
        return fn.scale_weights(self.selection())

    def expected_scales(self) -> Tensor:
        """The mean diffusion time of every scale, ``[num_scales]``."""
        return fn.expected_scales(self.selection())

    def frame_bounds(self) -> tuple[Tensor, Tensor]:
        r"""Exact lower and upper frame bound of the filter bank over the operator's spectrum.

        They hold in the operator's own norm, :math:`[2\alpha - 1, 1]` being the spectrum of a walk.
        In float64: scalars, or ``[in_channels]`` if channels have their own laziness or scales.
        """
        theta, cumulative = self.selection.theta, self.selection()
        if theta is not None:
            cumulative = fn.select_scales(theta.detach().double(), self.selection.ordering)
        laziness = torch.as_tensor(self.walk.laziness, dtype=torch.float64)
        shape, size = self._channels(cumulative), cumulative.shape[-2:]
        banks = cumulative.detach().expand(*shape, *size).reshape(-1, *size)
        bounds = [
            fn.frame_bounds(bank, spectrum=fn.operator_spectrum(self.operator, float(own)))
            for bank, own in zip(banks, laziness.expand(shape).reshape(-1), strict=True)
        ]
        lower, upper = torch.tensor(bounds, dtype=torch.float64).unbind(1)
        return lower.view(shape), upper.view(shape)

    def _channels(self, cumulative: Tensor) -> torch.Size:
        """``[channels]`` if these have their own laziness or scales, else ``[]``."""
        own: Any = self.walk.laziness
        return cumulative.shape[:-2] or getattr(own, "shape", torch.Size())

    def fit_scales(
        self,
        x: Tensor,
        edge_index: Tensor | Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        *,
        per_channel: bool = False,
    ) -> Scattering:
        """Sets fixed scales by the information that diffusion loses, without labels.

        See :func:`legs.functional.infogain_scales`. Pass signals of training graphs only. One set
        of scales for all channels, or with ``per_channel`` one for each.

        >>> edge_index, x = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.eye(3)[:, :1]
        >>> module = Scattering(1, scales="infogain", num_scales=3)
        >>> module.fit_scales(x, edge_index).expected_scales().round(decimals=2)
        tensor([ 1.0000,  1.6200, 16.0000])
        """
        operator = self._operator(x, edge_index, edge_weight)
        selection = self.selection
        sizes = (selection.num_scales, selection.steps, batch, count_graphs(batch, batch_size))
        times = fn.infogain_scales(x, operator, *sizes).tolist()
        selection.fix(times[:-1] if per_channel else times[-1], selection.steps)
        selection.to(x)
        return self

    def bank(
        self, x: Tensor, edge_index: Tensor | Any, edge_weight: Tensor | None = None
    ) -> Tensor:
        r"""The filter bank alone: :math:`\Psi_0 x, \dots, \Psi_{J-1} x, \Phi_J x`.

        Returns:
            ``[nodes, num_scales + 1, channels]``, differentiable in everything; complex for
            ``operator="directed"``.

        >>> module = Scattering(1, scales=[1, 2])
        >>> module.bank(torch.tensor([[1.0], [0.0]]), torch.tensor([[0, 1], [1, 0]])).squeeze(-1)
        tensor([[ 0.5000,  0.0000,  0.5000],
                [-0.5000,  0.0000,  0.5000]])
        """
        walk, laziness = self._prepare(x, *read_edges(edge_index, edge_weight, x))
        bank: Any = (x, walk, laziness, self.selection().to(x.dtype))
        if not isinstance(walk, Graph):
            return fn.wavelet_transform(*bank, lowpass=True).movedim(0, 1)
        return wavelet_transform(*bank, lowpass=True, operator=self.operator)

    def matrices(
        self,
        edge_index: Tensor | Any,
        edge_weight: Tensor | None = None,
        num_nodes: int | None = None,
    ) -> Tensor:
        """The filters of a graph as dense matrices, ``[num_scales + 1, nodes, nodes]``.

        One more axis in front, of channels, if channels have their own laziness or scales.
        """
        cumulative = self.selection()
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
            num_nodes = edge_index.shape[0]
        nodes = int(edge_index.max()) + 1 if num_nodes is None else num_nodes
        one, channels = torch.eye(nodes).to(cumulative), self._channels(cumulative)
        operator = self._operator(one, edge_index, edge_weight)
        one = one.unsqueeze(-1).expand(-1, -1, *(channels or (1,)))
        filters = fn.wavelet_transform(one, operator, None, cumulative, lowpass=True)
        return filters.movedim(-1, 0) if channels else filters.squeeze(-1)

    def responses(self, eigenvalues: Tensor) -> Tensor:
        r"""Frequency responses of the bank, ``[num_scales + 1, points]``.

        ``eigenvalues``: of the operator, for a lazy walk in :math:`[2\alpha - 1, 1]`, ``[points]``.
        """
        return fn.filter_responses(self.selection().to(eigenvalues.dtype), eigenvalues)

    def inverse(
        self,
        bands: Tensor,
        edge_index: Tensor | Any,
        edge_weight: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        r"""The signals ``[nodes, channels]`` whose bands come nearest to the given ones.

        The least-squares inverse of :meth:`bank`; options are those of
        :func:`legs.functional.invert_bank`. For bands of a signal it is that signal, to a rounding
        error times the condition number :math:`\sqrt{C_u / C_l}` of :meth:`frame_bounds`.

        >>> module, edge_index = Scattering(1), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> x = torch.tensor([[1.0], [2.0], [4.0]])
        >>> torch.allclose(module.inverse(module.bank(x, edge_index), edge_index), x, atol=1e-4)
        True
        """
        cumulative = self.selection().to(bands.real.dtype)
        operator = self._operator(bands.real[:, 0], edge_index, edge_weight)
        return fn.invert_bank(bands, operator, cumulative, **options)

    def harden(self) -> Scattering:
        r"""A copy with fixed scales: increasing ones that maximise :math:`\sum_j \log F_{jt_j}`."""
        weights = self.scale_weights().detach()
        hardened = copy.deepcopy(self)
        rows = weights if weights.dim() == 3 else weights.unsqueeze(0)
        times: Any = [fn.harden_scales(each) for each in rows]
        times = times if weights.dim() == 3 else times[0]
        fixed = ScaleSelection(times, steps=self.selection.steps)
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
        for name in ("operator", "nonlinearity"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"Scattering with {name} of one's own cannot be saved; use a name")
        names = ["in_channels", "order", "path_policy", "lowpass", "operator", "nonlinearity"]
        names += ["flatten", "append_graph_size", "validate"]
        selection = self.selection
        return {
            **{name: getattr(self, name) for name in names},
            "scales": "learned" if selection.learned else selection.initial or "infogain",
            "num_scales": selection.num_scales,
            "steps": selection.steps,
            "ordering": selection.ordering,
            "laziness": self.walk.initial,
            "learn_laziness": self.walk.learn,
            "aggr": aggr,
        }

    def __repr__(self) -> str:
        usual = {"operator": "walk", "nonlinearity": "abs", "flatten": True}
        usual["append_graph_size"] = False
        others = [(name, getattr(self, name)) for name in usual]
        unusual = [f", {name}={value!r}" for name, value in others if value != usual[name]]
        return (
            f"{type(self).__name__}({self.in_channels}, {self.selection!r}, order={self.order}, "
            f"path_policy={self.path_policy}, lowpass={self.lowpass}, {self.walk!r}, "
            f"aggr={self.aggr!r}{''.join(unusual)})"
        )
