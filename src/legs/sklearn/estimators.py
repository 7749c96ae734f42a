"""Networks as scikit-learn estimators: graphs in, classes or numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from legs.functional.scales import Ordering
from legs.functional.scattering import PathPolicy
from legs.sklearn.base import GraphEstimator, Precision
from legs.sklearn.graphs import Graphs
from legs.sklearn.targets import Array, encode_classes, encode_numbers


class LEGSClassifier(ClassifierMixin, GraphEstimator):
    """Classification of graphs with learned geometric scattering, or any other model by name.

    Graphs can be networkx graphs, PyG ``Data``, scipy sparse or dense adjacency matrices, RDKit
    molecules or SMILES strings in a list, of mixed sizes (see
    :func:`legs.data.from_objects`), or a data set of :func:`legs.data.load`. Classes can be
    text, integers or truth values.

    A share of the graphs given to ``fit`` decides when training stops; then the model is trained
    again, for as many epochs, on all of them.

    Args:
        model: one of :func:`legs.training.methods` (default ``"legs-fcn"``).
        features: node features: ``"structure"``, ``"degree"``, ``"constant"``, ``"attributes"``,
            ``"labels"``, ``"atoms"``, ``"chem"``, ``"qm9"``, joined by ``+`` or in a list. Default:
            ``"chem"`` for molecules, ``"attributes"`` for graphs that carry node features, else
            ``"structure"`` (eccentricity and clustering coefficient).
        num_scales: of scattering, as all down to ``aggr``: see :class:`legs.nn.Scattering`.
            ``None`` (default): the model's default. One that the model has not raises.
        steps: number of diffusion steps.
        order: length of the longest path.
        paths: ``"increasing"`` or ``"all"``.
        lowpass: also low-passed coefficients.
        ordering: of learned scales, ``"ordered"`` or ``"softmax"``.
        laziness: of the random walk, at least ½.
        learn_laziness: ``False``, ``True`` or ``"channel"``.
        aggr: ``"moments"``, or the name of a PyG aggregation.
        num_layers: of message passing (default: the model's).
        hidden_channels: width (default: the model's).
        dropout: (default: the model's).
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

    Attributes:
        classes_: the classes, sorted.
        predictor_: the fitted model, a :class:`legs.training.Predictor`.
        network_: its network (not for ``gs-svm``).
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

    def __init__(
        self,
        model: str = "legs-fcn",
        *,
        features: str | Sequence[str] | None = None,
        num_scales: int | None = None,
        steps: int | None = None,
        order: int | None = None,
        paths: PathPolicy | None = None,
        lowpass: bool | None = None,
        ordering: Ordering | None = None,
        laziness: float | None = None,
        learn_laziness: bool | Literal["channel"] | None = None,
        aggr: str | None = None,
        num_layers: int | None = None,
        hidden_channels: int | None = None,
        dropout: float | None = None,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        batch_size: int = 128,
        max_epochs: int = 1000,
        patience: int = 100,
        validate_every: int = 10,
        validation_fraction: float = 0.1,
        refit: bool = True,
        clip: float | None = None,
        class_weight: Literal["balanced"] | None = None,
        precision: Precision = "float32",
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            model,
            features=features,
            num_scales=num_scales,
            steps=steps,
            order=order,
            paths=paths,
            lowpass=lowpass,
            ordering=ordering,
            laziness=laziness,
            learn_laziness=learn_laziness,
            aggr=aggr,
            num_layers=num_layers,
            hidden_channels=hidden_channels,
            dropout=dropout,
            lr=lr,
            weight_decay=weight_decay,
            batch_size=batch_size,
            max_epochs=max_epochs,
            patience=patience,
            validate_every=validate_every,
            validation_fraction=validation_fraction,
            refit=refit,
            clip=clip,
            precision=precision,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def fit(self, X: Graphs, y: Any) -> LEGSClassifier:
        """Trains on the graphs ``X`` of classes ``y``, ``[graphs]``."""
        if self.class_weight not in (None, "balanced"):
            raise ValueError(f'class_weight must be None or "balanced"; got {self.class_weight!r}')
        if self.class_weight and self.model == "gs-svm":
            raise ValueError("gs-svm has no class_weight")
        classes, codes = encode_classes(y)
        self._train(
            X,
            codes,
            balanced=self.class_weight == "balanced",
            task="classification",
            class_names=tuple(str(label) for label in classes.tolist()),
            target_names=("y",),
        )
        self.classes_ = classes
        return self

    def predict(self, X: Graphs) -> Array:
        """The most probable classes, ``[graphs]``."""
        best = self.predict_proba(X).argmax(axis=1)
        labels: Array = self.classes_[best]
        return labels

    def predict_proba(self, X: Graphs) -> Array:
        """Probabilities of the classes, in the order of ``classes_``, ``[graphs, classes]``."""
        answers = self._answers(X)
        # To float64's rounding, which scikit-learn's metrics hold them to.
        total: Array = answers.sum(axis=1, keepdims=True)
        return np.divide(answers, total)


class LEGSRegressor(RegressorMixin, GraphEstimator):
    """Regression of one or many numbers a graph; see :class:`LEGSClassifier`.

    Graphs and arguments are those of :class:`LEGSClassifier`, but for ``class_weight``. Targets are
    whitened for training; predictions are in original units. In a row of several targets some may
    be missing (NaN).

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
        numbers, names = encode_numbers(y)
        self._train(X, numbers, task="regression", class_names=(), target_names=names)
        self.target_names_ = names
        self._flat = np.ndim(y) == 1
        return self

    def predict(self, X: Graphs) -> Array:
        """Numbers in original units, of the shape that ``y`` had in ``fit``."""
        answers = self._answers(X)
        return answers[:, 0] if self._flat else answers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
