"""Cells of a regression study: one method on one data set, over seeds or over left-out targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.splits import (
    Split,
    group_folds,
    random_split,
    rotations,
    scaffold_split,
)
from legs.experiments.cells import Cell
from legs.experiments.importance import path_importance
from legs.experiments.packed import SCAFFOLDS, find_set
from legs.experiments.references import REFERENCES
from legs.experiments.request import Request
from legs.training import CVOptions, TrainingOptions
from legs.training.checkpoint import plain
from legs.training.cv_measures import Measure, train_mse

Splitting = Literal["random", "scaffold", "targets"]
# How errors are counted: of whitened targets, or in the targets' own units.
Score = Literal["whitened", "units"]
SPLITTINGS = {
    "random": "80/10/10 at random",
    "scaffold": "80/10/10 by scaffold",
    "targets": "whole targets left out",
}
_SAMPLE_SEED, _SHUFFLE_SEED = 0, 7
_FEWEST_FOLDS = 3


@dataclass(frozen=True)
class Protocol:
    """How the networks of a study are trained: the same for all of them.

    Args:
        seeds: of random and scaffold splits, a model each (default 4).
        folds: parts of whole targets, where these are left out; each is tested once (default 6).
        epochs: at most so many (default 1000).
        patience: epochs without a better validation loss (default 100).
        validate_every: epochs between validations (default 10).
        batch_size: graphs in a batch (default 128).
        rates: learning rates to choose from on validation loss (default 1e-3 and 1e-2).
        clip: largest norm of the gradient (default: not clipped).
        limit: at most so many graphs, drawn at random (default: all).
    """

    seeds: int = 4
    folds: int = 6
    epochs: int = 1000
    patience: int = 100
    validate_every: int = 10
    batch_size: int = 128
    rates: tuple[float, ...] = (1e-3, 1e-2)
    clip: float | None = None
    limit: int | None = None


QUICK = Protocol(
    seeds=2, folds=3, epochs=60, patience=20, validate_every=5, rates=(3e-3,), limit=400
)


@dataclass(frozen=True)
class RegressionCell(Cell):
    """One method on one data set; the fields of :class:`Cell`, and these.

    Args:
        splitting: how graphs are split (default: at random).
        score: which errors the table shows (default: of whitened targets).
        on_error: what is done with graphs that cannot be read (default: the first one raises).
    """

    splitting: Splitting = "random"
    score: Score = "whitened"
    on_error: Literal["raise", "skip"] = "raise"

    @property
    def test_sets(self) -> int:
        """How many there are, at most."""
        return self.options.folds if self.splitting == "targets" else len(self.options.seeds)

    @property
    def models(self) -> int:
        """How many models it takes."""
        return self.test_sets * len(self.options.grid)

    @property
    def protocol(self) -> str:
        """How it is evaluated, in words.

        >>> RegressionCell("qm9", "gcn", CVOptions()).protocol
        '4 seeds, 80/10/10 at random'
        """
        what = "folds" if self.splitting == "targets" else "seeds"
        words = f"{self.test_sets} {what}, {SPLITTINGS[self.splitting]}"
        if self.limit is not None:
            epochs = self.options.training.max_epochs
            words += f", {self.limit} graphs, {epochs} epochs at most"
        return words

    @property
    def measures(self) -> Mapping[str, Measure]:
        """What is taken from trained networks."""
        return {"train_mse": train_mse, "importance": path_importance}

    def settings(self) -> dict[str, Any]:
        """Everything that its result depends on, as JSON values."""
        return plain({**super().settings(), "splitting": self.splitting, "score": self.score})

    def load(self) -> GraphDataset:
        """Its graphs."""
        data = find_set(self.data, self.features, self.on_error)
        if data.task != "regression" or data.y is None:
            raise DataError(f"{self.data} has no numbers to predict")
        if self.limit is not None and self.limit < len(data):
            order = np.random.default_rng(_SAMPLE_SEED).permutation(len(data))
            data = data.subset(np.sort(order[: self.limit]))
        if self.shuffled:
            assert data.y is not None
            generator = torch.Generator().manual_seed(_SHUFFLE_SEED)
            data = replace(data, y=data.y[torch.randperm(len(data), generator=generator)])
        return data

    def splits(self, data: GraphDataset) -> list[Split]:
        """One a test set; the same for every method."""
        if self.splitting == "targets":
            groups = data.groups
            folds = min(self.options.folds, len(set(groups)))
            if folds < _FEWEST_FOLDS:
                raise DataError(
                    f"{self.data} has {len(set(groups))} targets; three are needed to leave some "
                    "out: to train, to validate, to test"
                )
            parts = group_folds(groups, k=folds, seed=self.options.training.seed)
            return [group[0] for group in rotations(parts, rotations=1)]
        if self.splitting == "random":
            return [random_split(len(data), seed=seed) for seed in self.options.seeds]
        return [self._by_scaffold(data, seed) for seed in self.options.seeds]

    def _by_scaffold(self, data: GraphDataset, seed: int) -> Split:
        known = data.info.get(SCAFFOLDS, {}).get(str(seed))
        if known is not None and len(known) == len(data):
            parts = np.asarray(known)
            return Split(*(np.flatnonzero(parts == part) for part in range(3)))
        if not data.smiles:
            raise DataError(
                f"{self.data} has no SMILES here, and no split by scaffold for seed {seed} of "
                f"{len(data):,} molecules was packed with it"
            )
        return scaffold_split(data.smiles, seed=seed)


def make_regression_cell(
    request: Request,
    data: str,
    method: str,
    features: str,
    protocol: Protocol,
    *,
    splitting: Splitting = "random",
    **more: Any,
) -> RegressionCell:
    """A cell of a study.

    Args:
        request: what was asked for; its seed moves all seeds.
        data: name of the set.
        method: of :func:`legs.training.methods` or
            :data:`~legs.experiments.references.REFERENCES`.
        features: blocks of node features.
        protocol: how to train.
        splitting: how graphs are split (default: at random).
        more: further fields of :class:`RegressionCell`.
    """
    if request.rotations is not None:
        raise ValueError("--rotations is for tables of accuracies: here every test set has a model")
    training = TrainingOptions(
        seed=request.seed,
        max_epochs=protocol.epochs,
        patience=protocol.patience,
        validate_every=protocol.validate_every,
        batch_size=protocol.batch_size,
        clip=protocol.clip,
    )
    seeds = tuple(request.seed * protocol.seeds + k for k in range(protocol.seeds))
    networks = method not in REFERENCES and method != "gs-svm"
    grid = tuple({"lr": rate} for rate in protocol.rates) if networks else ({},)
    options = CVOptions(protocol.folds, 1, seeds=seeds, training=training, grid=grid)
    return RegressionCell(
        data,
        method,
        options,
        features=features,
        limit=protocol.limit,
        shuffled=request.shuffled,
        splitting=splitting,
        **more,
    )
