"""What classifier and regressor share: options, training, and asking the trained model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.grouping import find_groups
from legs.data.splits import Split
from legs.functional.scales import Ordering
from legs.functional.scattering import PathPolicy
from legs.models import Network
from legs.nn.scattering import RENAMED
from legs.sklearn.graphs import Graphs, align, read_graphs
from legs.sklearn.targets import Array
from legs.sklearn.validation import hold_out
from legs.training import Fitted, Predictor, Task, TrainingOptions, fit
from legs.training.methods import ENSEMBLES
from legs.training.svm import ScatteringSVM

Precision = Literal["float32", "tf32", "bfloat16", "float64"]

# Options of the network, which keeps its own default where one is None.
NETWORK_OPTIONS = (
    *("num_scales", "steps", "order", "paths", "lowpass", "ordering"),
    *("laziness", "learn_laziness", "aggr", "num_layers", "hidden_channels", "dropout"),
)
TRAINING_OPTIONS = (
    *("lr", "weight_decay", "batch_size", "max_epochs", "patience", "validate_every"),
    *("clip", "precision"),
)


class GraphEstimator(BaseEstimator):
    """Trains a model by name on a list of graphs; see :class:`~legs.sklearn.LEGSClassifier`."""

    predictor_: Predictor
    history_: list[dict[str, float]]
    best_epoch_: int
    features_: tuple[str, ...]
    node_features_: tuple[str, ...]
    in_channels_: int

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
        precision: Precision = "float32",
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.features = features
        self.num_scales = num_scales
        self.steps = steps
        self.order = order
        self.paths = paths
        self.lowpass = lowpass
        self.ordering = ordering
        self.laziness = laziness
        self.learn_laziness = learn_laziness
        self.aggr = aggr
        self.num_layers = num_layers
        self.hidden_channels = hidden_channels
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validate_every = validate_every
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.clip = clip
        self.precision = precision
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @property
    def network_(self) -> Network:
        """The trained network, on the CPU."""
        check_is_fitted(self)
        if isinstance(self.predictor_.answerer, ScatteringSVM):
            raise AttributeError(f"{self.predictor_.method} is not a network")
        return self.predictor_.network

    def embed(self, X: Graphs) -> Array:
        """The features of the graphs ``X`` that the model's head reads, ``[graphs, features]``."""
        data = self._read(X)
        embedding: Array = self.predictor_.embed(data).numpy()
        return embedding

    def save(self, directory: str | Path) -> None:
        """Writes the fitted model; :func:`legs.training.load_predictor` and ``legs predict`` read
        it, without unpickling. Labels become text."""
        check_is_fitted(self)
        self.predictor_.save(directory)

    def _read(self, X: Graphs) -> GraphDataset:
        check_is_fitted(self)
        return align(read_graphs(X, self.features_), self.node_features_)

    def _answers(self, X: Graphs) -> Array:
        data = self._read(X)
        answers: Array = self.predictor_.predict(data).double().numpy()
        return answers

    def _train(self, X: Graphs, y: Tensor, *, balanced: bool = False, **fields: Any) -> None:
        data = read_graphs(X, self.features)
        if len(data) != len(y):
            raise DataError(f"{len(data)} graphs, but {len(y)} targets")
        data = replace(data, y=y, **fields)
        options = self._training_options(balanced)
        classes = y if data.task == "classification" else None
        groups = find_groups(data)
        split = hold_out(len(data), self.validation_fraction, options.seed, classes, groups)
        fitted = self._fit(data, split, options)
        refitted = self._refit(data, fitted, options) if self.refit else fitted.predictor
        self.predictor_ = refitted
        self.history_ = fitted.state.history
        self.best_epoch_ = fitted.state.best_epoch
        self.features_ = data.info["features"]
        self.node_features_ = data.feature_names
        self.in_channels_ = data.in_channels

    def _fit(self, data: GraphDataset, split: Split, options: TrainingOptions) -> Fitted:
        return fit(
            data,
            self.model,
            split,
            options,
            model_options=self._network_options(),
            device=self.device,
            report=_tell if self.verbose else _keep_quiet,
            group_by=None,  # all graphs train in the end
        )

    def _refit(self, data: GraphDataset, fitted: Fitted, options: TrainingOptions) -> Predictor:
        """The same on all graphs, for the number of epochs chosen by validation."""
        everything = np.arange(len(data))
        machine = fitted.predictor.answerer
        if isinstance(machine, ScatteringSVM):
            # Graphs that were held out have calibrated it; on graphs it knows it would be too sure.
            task = Task.of(data, torch.from_numpy(everything))
            assert data.y is not None
            whole = replace(machine, features=machine.embedding(data), target=task.targets(data.y))
            return replace(fitted.predictor, answerer=whole, task=task)
        if self.model in ENSEMBLES:
            return fitted.predictor  # each part stopped at an epoch of its own
        epochs = fitted.state.best_epoch
        if self.verbose:
            print(f"again with all {len(data)} graphs, {epochs} epochs")
        # Validated once, after the last epoch: these are the weights to keep.
        options = replace(options, max_epochs=epochs, validate_every=epochs)
        split = fitted.split._replace(train=everything)
        return self._fit(data, split, options).predictor

    def _network_options(self) -> dict[str, Any]:
        chosen = {name: _plain(getattr(self, name)) for name in NETWORK_OPTIONS}
        chosen = {RENAMED.get(k, k): value for k, value in chosen.items() if value is not None}
        wrong = [name for name in chosen if name not in ("hidden_channels", "dropout")]
        if self.model in ENSEMBLES and wrong:
            raise ValueError(
                f"{self.model} has no option {wrong[0]!r}; its networks have their defaults, its "
                "head takes hidden_channels and dropout"
            )
        return chosen

    def _training_options(self, balanced: bool) -> TrainingOptions:
        generator = check_random_state(self.random_state)
        if isinstance(self.random_state, Integral):
            seed = int(self.random_state)
        else:
            seed = int(generator.randint(np.iinfo(np.int32).max))
        chosen = {name: _plain(getattr(self, name)) for name in TRAINING_OPTIONS}
        return TrainingOptions(**chosen, balanced=balanced, seed=seed)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a list of graphs
        tags.input_tags.string = True  # SMILES
        tags.no_validation = True
        return tags


def _plain(value: Any) -> Any:
    """NumPy's numbers, as a grid may hold them, as Python's: options are saved as JSON."""
    return value.item() if isinstance(value, np.generic) else value


def _tell(row: dict[str, float]) -> None:
    if "validation_loss" in row:
        print(
            f"epoch {int(row['epoch'])}: training loss {row['train_loss']:.4f}, "
            f"validation loss {row['validation_loss']:.4f}"
        )


def _keep_quiet(row: dict[str, float]) -> None:
    pass
