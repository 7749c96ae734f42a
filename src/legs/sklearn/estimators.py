"""Networks as scikit-learn estimators: graphs in, classes or continuous targets out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.splits import Split, balanced_group_folds, find_groups
from legs.data.validate import Array
from legs.functional.scales import Ordering
from legs.functional.scattering import PathPolicy
from legs.models import Network
from legs.sklearn.inputs import GraphEstimator, Graphs, encode_classes, encode_numbers, read_graphs
from legs.training import Fitted, Predictor, Task, TrainingOptions, fit
from legs.training.methods import BLENDS, ENSEMBLES
from legs.training.options import Precision
from legs.training.svm import ScatteringSVM

# Options of the network, which keeps its own default where one is None.
NETWORK_OPTIONS = (
    *("num_scales", "steps", "order", "path_policy", "lowpass", "ordering"),
    *("laziness", "learn_laziness", "aggr", "num_layers", "hidden_channels", "dropout"),
    "minutes",
)


@dataclass(eq=False, repr=False)
class NetworkEstimator(GraphEstimator):
    """Trains a model by name on a list of graphs; see :class:`LEGSClassifier`."""

    model: str = "legs-fcn"
    _: KW_ONLY
    features: str | Sequence[str] | None = None
    num_scales: int | None = None
    steps: int | None = None
    order: int | None = None
    path_policy: PathPolicy | None = None
    lowpass: bool | None = None
    ordering: Ordering | None = None
    laziness: float | None = None
    learn_laziness: bool | Literal["channel"] | None = None
    aggr: str | None = None
    num_layers: int | None = None
    hidden_channels: int | None = None
    dropout: float | None = None
    minutes: float | None = None
    edge_features: bool = True
    lr: float = 1e-3
    weight_decay: float = 0.0
    batch_size: int = 128
    max_epochs: int = 1000
    patience: int = 100
    validate_every: int = 10
    validation_fraction: float = 0.1
    refit: bool = True
    clip: float | None = None
    precision: Precision = "float32"
    device: str = "cpu"
    random_state: int | np.random.RandomState | None = 0
    verbose: bool = False
    paths: PathPolicy | None = None

    @property
    def network_(self) -> Network:
        """The trained network, on the CPU."""
        check_is_fitted(self)
        if not isinstance(self.predictor_.answerer, Network):
            raise AttributeError(f"{self.predictor_.method} is not a network")
        return self.predictor_.network

    def embed(self, X: Graphs) -> Array:
        """The features of the graphs ``X`` that the model's head reads, ``[graphs, features]``."""
        data = self._read(X)
        return np.asarray(self.predictor_.embed(data))

    def save(self, directory: str | Path) -> None:
        """Writes the fitted model; :func:`legs.training.load_predictor` and ``legs predict`` read
        it, without unpickling. Labels become text."""
        check_is_fitted(self)
        self.predictor_.save(directory)

    def _predict(self, X: Graphs) -> Array:
        data = self._read(X)
        return np.asarray(self.predictor_.predict(data).double())

    def _train(self, X: Graphs, y: Tensor, *, balanced: bool = False, **facts: Any) -> None:
        data = read_graphs(X, self.features)
        if len(data) != len(y):
            raise DataError(f"{len(data)} graphs, but {len(y)} targets")
        data = replace(data, y=y, **facts)
        if not self.edge_features:
            data = replace(data, edge_attr=None)
        names = [field.name for field in fields(TrainingOptions) if hasattr(self, field.name)]
        chosen = {name: self._option(name) for name in names}
        options = TrainingOptions(**chosen, balanced=balanced, seed=self._seed())
        classes, groups = y if data.task == "classification" else None, find_groups(data)
        split = hold_out(len(data), self.validation_fraction, options.seed, classes, groups)
        fitted = self._fit(data, split, options)
        self.predictor_ = self._refit(data, fitted, options) if self.refit else fitted.predictor
        self.history_, self.best_epoch_ = fitted.state.history, fitted.state.best_epoch
        self._set_features(data)

    def _seed(self) -> int:
        generator, seed = check_random_state(self.random_state), self.random_state
        largest = np.iinfo(np.int32).max
        return int(seed if isinstance(seed, Integral) else generator.randint(largest))

    def _fit(self, data: GraphDataset, split: Split, options: TrainingOptions) -> Fitted:
        chosen = {name: self._option(name) for name in NETWORK_OPTIONS}
        return fit(
            *(data, self.model, split, options),
            model_options={name: value for name, value in chosen.items() if value is not None},
            device=self.device,
            report=_print_losses if self.verbose else lambda row: None,
            group_by=None,  # all graphs train in the end
        )

    def _refit(self, data: GraphDataset, fitted: Fitted, options: TrainingOptions) -> Predictor:
        """The same on all graphs, for the number of epochs chosen by validation."""
        everything = np.arange(len(data))
        svm = fitted.predictor.answerer
        if isinstance(svm, ScatteringSVM):
            # Calibrated on graphs that were held out: on its own it would be overconfident.
            task = Task.of(data, torch.from_numpy(everything))
            assert data.y is not None
            svm = replace(svm, features=svm.embedding(data), target=task.targets(data.y))
            return replace(fitted.predictor, answerer=svm, task=task)
        if self.model in ENSEMBLES or self.model in BLENDS:
            return fitted.predictor  # each part has an end of its own
        epochs = fitted.state.best_epoch
        if self.verbose:
            print(f"again with all {len(data)} graphs, {epochs} epochs")
        # Validated once, after the last epoch: these are the weights to keep.
        options = replace(options, max_epochs=epochs, validate_every=epochs)
        split = fitted.split._replace(train=everything)
        again = self._fit(data, split, options).predictor
        return replace(again, half_widths=fitted.predictor.half_widths)


@dataclass(eq=False, repr=False)
class LEGSClassifier(ClassifierMixin, NetworkEstimator):
    """Classification of graphs with learned geometric scattering, or any other model by name.

    Graphs can be networkx graphs, PyG ``Data``, scipy sparse or dense adjacency matrices, RDKit
    molecules or SMILES strings in a list, of mixed sizes (see :func:`legs.data.from_objects`), or a
    data set of :func:`legs.data.load`. Classes can be text, integers or Booleans; a matrix of 0 and
    1 holds several labels per graph, of which some may be missing (NaN).

    A share of the graphs decides when training stops; then the model is trained again, for as many
    epochs, on all of them.

    Args:
        model: one of :func:`legs.training.methods` (default ``"legs-fcn"``).
        features: node features: ``"structure"``, ``"degree"``, ``"constant"``, ``"attributes"``,
            ``"labels"``, ``"atoms"``, ``"chem"``, ``"qm9"``, joined by ``+`` or in a list. Default:
            ``"chem"`` for molecules, ``"attributes"`` for graphs that carry node features, else
            ``"structure"`` (eccentricity and clustering coefficient).
        num_scales: of scattering, as all down to ``aggr``: see :class:`legs.nn.Scattering`.
            ``None`` (default): the model's default. An option that the model lacks raises.
        steps: number of diffusion steps.
        order: length of the longest path.
        path_policy: ``"increasing"`` or ``"all"``.
        lowpass: also low-passed coefficients.
        ordering: of learned scales, ``"ordered"`` or ``"softmax"``.
        laziness: of the random walk, at least ½.
        learn_laziness: ``False``, ``True`` or ``"channel"``.
        aggr: ``"moments"``, or the name of a PyG aggregation.
        num_layers: of message passing (default: the model's).
        hidden_channels: width (default: the model's).
        dropout: (default: the model's).
        minutes: about how long ``auto`` may take (default 2.5, and in proportion for more than
            1,000 graphs).
        edge_features: whether models that can read edge features, such as bonds, do (default).
        lr: learning rate of Adam (default 1e-3).
        weight_decay: of Adam (default 0).
        batch_size: graphs in a batch (default 128).
        max_epochs: at most so many epochs (default 1000).
        patience: stop after so many epochs without a better validation loss (default 100).
        validate_every: epochs between validations (default 10).
        validation_fraction: share of the graphs that decides when to stop, stratified by class, at
            most ½ (default 0.1).
        refit: whether to train again on all graphs (default ``True``); ``False`` keeps the weights
            of the best validation loss and saves up to half the time. The two-network models
            ``gcn-legs-…`` keep them always.
        clip: largest norm of the gradient (default ``None``: not clipped).
        class_weight: ``"balanced"`` for rare classes to weigh more in the loss (default ``None``).
        precision: ``"float32"`` (default), ``"tf32"``, ``"bfloat16"`` or ``"float64"`` in training.
        device: to train on (default ``"cpu"``); predictions are made on the CPU.
        random_state: seed of weights, batches and validation graphs (default 0).
        verbose: whether to print losses (default ``False``).
        paths: deprecated, ``path_policy``.

    Attributes:
        classes_: the classes, sorted; the numbers of labels, if there are several per graph.
        predictor_: the fitted model, a :class:`legs.training.Predictor`.
        network_: its network (not for ``gs-svm``, ``auto`` and its candidates).
        history_: losses of every epoch, validation graphs held out.
        best_epoch_: epoch of the best validation loss.
        features_: names of the node feature blocks in use.
        node_features_: names of the node features.
        in_channels_: number of node features.

    >>> import networkx as nx
    >>> graphs = [nx.path_graph(n) for n in range(4, 14)] + [nx.star_graph(n) for n in range(4, 14)]
    >>> kinds = ["path"] * 10 + ["star"] * 10
    >>> model = LEGSClassifier(max_epochs=20, lr=0.01).fit(graphs, kinds)
    >>> model.predict([nx.path_graph(20), nx.star_graph(20)])
    array(['path', 'star'], dtype='<U4')
    """

    _: KW_ONLY
    class_weight: Literal["balanced"] | None = None

    def fit(self, X: Graphs, y: Any) -> LEGSClassifier:
        """Trains on the graphs ``X`` of classes ``y``, ``[graphs]``, or labels, 0 or 1 each."""
        if self.class_weight not in (None, "balanced"):
            raise ValueError(f'class_weight must be None or "balanced"; got {self.class_weight!r}')
        if self.class_weight and self.model == "gs-svm":
            raise ValueError(f"{self.model} has no class_weight")
        if np.ndim(y) == 2 and np.shape(y)[1] > 1:
            labels, titles = encode_numbers(y, "multilabel")
            facts = {"class_names": (), "target_names": titles}
            self._train(X, labels, balanced=bool(self.class_weight), task="multilabel", **facts)
            self.classes_ = np.arange(len(titles))
            return self
        classes, codes = encode_classes(y)
        names = {"class_names": tuple(map(str, classes.tolist())), "target_names": ("y",)}
        self._train(X, codes, balanced=bool(self.class_weight), task="classification", **names)
        self.classes_ = classes
        return self

    def predict(self, X: Graphs) -> Array:
        """The most probable classes, ``[graphs]``, or 0 and 1 by graph and label."""
        probabilities = self.predict_proba(X)
        if self.predictor_.task.kind == "multilabel":
            return (probabilities > 0.5).astype(np.int64)
        best = probabilities.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Graphs) -> Array:
        """Probabilities of the classes, in the order of ``classes_``, ``[graphs, classes]``."""
        probabilities = self._predict(X)
        if self.predictor_.task.kind == "multilabel":
            return probabilities
        # They sum to one to float64's rounding, which scikit-learn's metrics check.
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))


class LEGSRegressor(MultiOutputMixin, RegressorMixin, NetworkEstimator):
    """Regression of one or many targets per graph; see :class:`LEGSClassifier`.

    Graphs and arguments are those of :class:`LEGSClassifier`, but for ``class_weight``. Targets are
    standardized for training; predictions are in original units. In a row of several targets some
    may be missing (NaN).

    Attributes:
        target_names_: names of the targets: the columns of a pandas table, else ``y``, ``y0``, ….
        predictor_, network_, history_, best_epoch_, features_, node_features_, in_channels_: as in
            :class:`LEGSClassifier`.

    >>> import networkx as nx
    >>> graphs = [nx.path_graph(n) for n in range(2, 22)]
    >>> model = LEGSRegressor(max_epochs=50, lr=0.01).fit(graphs, [len(g) for g in graphs])
    >>> model.predict(graphs[:3]).shape, model.score(graphs, [len(g) for g in graphs]) > 0.9
    ((3,), True)
    """

    def fit(self, X: Graphs, y: Any) -> LEGSRegressor:
        """Trains on the graphs ``X`` of targets ``y``, ``[graphs]`` or ``[graphs, targets]``."""
        targets, names = encode_numbers(y)
        self._train(X, targets, task="regression", class_names=(), target_names=names)
        self.target_names_ = names
        self._flat = np.ndim(y) == 1
        return self

    def predict(self, X: Graphs) -> Array:
        """Predictions in original units, of the shape that ``y`` had in ``fit``."""
        predictions = self._predict(X)
        return predictions[:, 0] if self._flat else predictions


def hold_out(
    graphs: int, fraction: float, seed: int, classes: Any = None, groups: Any = None
) -> Split:
    """Splits off at least one validation graph; there are no test graphs.

    Of every class (if there are any) the same share validates, to within one graph, and one graph
    at least trains. Groups (:func:`legs.data.splits.find_groups`) stay together.
    """
    if not 0 < fraction <= 0.5:
        raise ValueError(
            "validation_fraction must be above 0 and at most 0.5 (that share of the graphs "
            f"decides when to stop); got {fraction}"
        )
    nothing = np.empty(0, dtype=np.int64)
    if groups is not None and groups.max() > 0:
        train, validation = balanced_group_folds(groups, [1 - fraction, fraction], classes, seed)
        return Split(train, validation, nothing)
    order = np.random.default_rng(seed).permutation(graphs)
    if classes is not None:
        codes = classes.numpy()
        order = order[np.argsort(codes[order], kind="stable")]
        order = order[np.bincount(codes)[codes[order]] > 1]
    if len(order) < 2:
        raise DataError("too few graphs: one must validate and others of its kind train")
    count = min(int(np.ceil(fraction * graphs - 1e-9)), len(order) // 2)
    # Evenly spaced over the classes, which lie side by side: neighbours are two apart at least.
    positions = (np.arange(count) + 0.5) * len(order) / count
    validation = np.sort(order[positions.astype(np.int64)])
    return Split(np.setdiff1d(np.arange(graphs), validation), validation, nothing)


def _print_losses(row: dict[str, float]) -> None:
    if "validation_loss" in row:
        print(
            f"epoch {int(row['epoch'])}: training loss {row['train_loss']:.4f}, "
            f"validation loss {row['validation_loss']:.4f}"
        )
