"""Geometric scattering for scikit-learn: graphs in, an array of features out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import TransformerMixin
from sklearn.utils import gen_batches, gen_even_slices
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.features.molecule_features import (
    Descriptors,
    Fingerprint,
    feature_names,
    with_molecule_features,
)
from legs.data.readers.objects import listed
from legs.data.validate import Array
from legs.functional import Nonlinearity
from legs.functional.moments import MomentKind
from legs.functional.scattering import PathPolicy
from legs.nn import Moments, Scattering
from legs.nn.columns import columns_of_features
from legs.sklearn.inputs import GraphEstimator, Graphs, read_graphs

OPTIONS = (
    *("scales", "num_scales", "steps", "order", "path_policy", "lowpass", "laziness"),
    *("append_graph_size", "operator", "nonlinearity"),
)


@dataclass(eq=False, repr=False, kw_only=True)
class GeometricScattering(TransformerMixin, GraphEstimator):
    r"""Fixed geometric scattering: a list of graphs becomes an array, one row per graph.

    Diffusion wavelets at fixed scales, cascaded with absolute values, and moments over the nodes
    (see :class:`legs.nn.Scattering`). Nothing is trained: ``fit`` only learns which node features
    the graphs carry.

    Graphs can be networkx graphs, PyG ``Data``, scipy sparse or dense adjacency matrices, RDKit
    molecules, SMILES strings, of mixed sizes; see :func:`legs.data.from_objects`. They are
    checked as they come in: directed or empty graphs and negative weights raise.

    Args:
        scales: ``"dyadic"`` (default) for 1, 2, 4, …, or increasing numbers.
        num_scales: number of dyadic scales (default 5; read off a list of integers).
        steps: number of diffusion steps (default: the largest scale).
        order: length of the longest path (default 2).
        path_policy: ``"increasing"`` (default) or ``"all"``.
        lowpass: also low-passed coefficients (default ``False``).
        laziness: of the random walk, at least ½ (default 0.5).
        operator: ``"walk"`` (default), ``"row"``, ``"symmetric"`` or ``"heat"``.
        nonlinearity: ``"abs"`` (default), ``"relu-pair"``, ``"none"`` or a function.
        moments: ``"normalized"`` (default), ``"mean"`` or ``"sum"``.
        num_moments: number of moments (default 4; at most 4 if normalized).
        append_graph_size: whether the numbers of nodes and edges are two more columns (default
            ``False``); normalized moments are averages and do not know them.
        features: node features and their default: see :class:`LEGSClassifier`.
        batch_size: graphs computed at once (default 256); changes memory and speed only.
        dtype: ``"float32"`` (default) or ``"float64"``, of computation and output.
        descriptors: ``"rdkit"`` appends RDKit's descriptors of molecules (default ``None``); what
            is missing is the median of ``fit``. See
            :func:`legs.data.features.molecule_features.molecule_features`.
        fingerprint: ``"morgan"`` or ``"morgan-count"`` appends fingerprints (default ``None``).
        n_jobs: processes that share the graphs of ``transform``, -1 for one per core (default
            ``None``: this one alone).
        verbose: whether to show progress (default ``False``).
        paths: deprecated, ``path_policy``.
        size: deprecated, ``append_graph_size``.

    Attributes:
        features_: names of the node feature blocks in use.
        node_features_: names of the node features.
        in_channels_: number of node features.
        medians_: of the descriptors and fingerprints.

    >>> import networkx as nx
    >>> scattering = GeometricScattering(order=1, num_moments=1)
    >>> scattering.fit_transform([nx.path_graph(3), nx.star_graph(5)]).shape
    (2, 12)
    >>> list(scattering.get_feature_names_out()[:3])
    ['eccentricity.mean', 'clustering.mean', 'eccentricity.psi0.mean']
    """

    scales: Literal["dyadic"] | Sequence[float] = "dyadic"
    num_scales: int = 5
    steps: int | None = None
    order: int = 2
    path_policy: PathPolicy = "increasing"
    lowpass: bool = False
    laziness: float = 0.5
    operator: str = "walk"
    nonlinearity: Nonlinearity = "abs"
    moments: MomentKind = "normalized"
    num_moments: int = 4
    append_graph_size: bool = False
    features: str | Sequence[str] | None = None
    batch_size: int = 256
    dtype: Literal["float32", "float64"] = "float32"
    descriptors: Descriptors | None = None
    fingerprint: Fingerprint | None = None
    n_jobs: int | None = None
    verbose: bool = False
    paths: PathPolicy | None = None
    size: bool | None = None

    def fit(self, X: Graphs, y: Any = None) -> GeometricScattering:
        """Learns which node features the graphs ``X`` carry; ``y`` is not used."""
        self._fit(X)
        return self

    def transform(self, X: Graphs) -> Array:
        """Scattering features of the graphs ``X``, ``[graphs, columns]``."""
        check_is_fitted(self)
        workers = effective_n_jobs(self.n_jobs)
        if workers == 1 or isinstance(X, GraphDataset):
            return self._transform(X)
        graphs = listed(X)
        parts = gen_even_slices(len(graphs), min(workers, len(graphs)))
        run = Parallel(self.n_jobs)
        try:
            return np.concatenate(run(delayed(self._transform)(graphs[part]) for part in parts))
        except DataError:
            return self._transform(graphs)  # raises again, with the graph's number among all

    def fit_transform(self, X: Graphs, y: Any = None, **fit_params: Any) -> Array:
        """The same as ``fit`` and ``transform``, reading the graphs once."""
        return self._scatter(self._fit(X))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns: node feature, path, moment (``input_features`` is not used)."""
        check_is_fitted(self)
        names = columns_of_features(self._module().columns(), self.node_features_)
        if self.descriptors or self.fingerprint:
            names = [*names, *feature_names(self.descriptors, self.fingerprint)]
        return np.array(names, dtype=object)

    def _transform(self, X: Graphs) -> Array:
        return self._scatter(self._with_molecule_features(self._read(X)))

    def _fit(self, X: Graphs) -> GraphDataset:
        if isinstance(self.scales, str) and self.scales != "dyadic":
            raise ValueError(
                f'scales must be "dyadic" or increasing numbers; got {self.scales!r} (learned '
                "scales need targets: see LEGSClassifier, LEGSRegressor)"
            )
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f'dtype must be "float32" or "float64"; got {self.dtype!r}')
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {self.batch_size}")
        data = self._with_molecule_features(read_graphs(X, self.features))
        self._set_features(data)
        assert data.graph_features is not None
        self.medians_ = data.graph_features.nanmedian(0).values.nan_to_num().numpy()
        self._module()  # wrong options raise here, not in transform
        return data

    def _with_molecule_features(self, data: GraphDataset) -> GraphDataset:
        if self.descriptors or self.fingerprint:
            return with_molecule_features(data, self.descriptors, self.fingerprint)
        return replace(data, graph_features=torch.empty(len(data), 0), graph_feature_names=())

    def _module(self) -> Scattering:
        module = Scattering(
            self.in_channels_,
            **{name: self._option(name) for name in OPTIONS},
            aggr=Moments(self.moments, self.num_moments),
            validate=False,  # the graphs were checked as they were read
        )
        return module.to(getattr(torch, self.dtype)).eval()

    @torch.no_grad()
    def _scatter(self, data: GraphDataset) -> Array:
        module = self._module()
        assert data.graph_features is not None
        more, width = data.graph_features.numpy(), module.out_channels
        out = np.empty((len(data), width + more.shape[1]), dtype=self.dtype)
        out[:, width:] = np.where(np.isnan(more), self.medians_, more)
        parts = [*gen_batches(len(data), self.batch_size)]
        for part in tqdm(parts, "scattering", disable=not self.verbose):
            x, edge_index, weight, batch, size = data.batch(part)[:5]
            x = x.to(getattr(torch, self.dtype))
            out[part, :width] = module(x, edge_index, weight, batch, size).numpy()
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
