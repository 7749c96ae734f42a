"""The plan of a cross-validation: which models are trained on what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from legs.data.dataset import GraphDataset
from legs.data.splits import Split, random_split, rotations, stratified_folds
from legs.training.options import TrainingOptions


@dataclass(frozen=True)
class CVOptions:
    """How to cross-validate; the defaults are the paper's protocol.

    Args:
        folds: number of partitions (default 10).
        rotations: models a test set, each with another partition to validate (default: all, nine
            for ten partitions). 1 trains one model a test set.
        test_folds: consecutive partitions in a test set (default 1; 2, 5 or 7 for the paper's
            reduced training data).
        seeds: of random 80/10/10 splits, for regression (default 0 to 3).
        training: how to train each model.
        grid: settings to choose from on validation loss, each a dictionary of model options and
            ``lr`` (default: none, the model's own defaults). :func:`legs.training.cv_grid.grid_of`
            makes all combinations.
    """

    folds: int = 10
    rotations: int | None = None
    test_folds: int = 1
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    grid: tuple[dict[str, Any], ...] = ({},)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "folds": self.folds,
            "rotations": self.rotations,
            "test_folds": self.test_folds,
            "seeds": list(self.seeds),
            "training": self.training.to_json(),
            "grid": list(self.grid),
        }


def plan_splits(
    data: GraphDataset, options: CVOptions, own: list[Split] | None = None
) -> list[list[Split]]:
    """Splits by test set, and within it by model; the same for every method.

    Args:
        data: classes are stratified, numbers split at random by seed.
        options: of the cross-validation.
        own: a user's splits, one a fold, in place of all that.
    """
    if own is not None:
        return [[split] for split in own]
    if data.task == "classification":
        assert data.y is not None
        smallest = int(np.bincount(data.y.numpy()).min())
        if smallest < options.folds:
            raise ValueError(
                f"the rarest class has {smallest} graphs, fewer than the {options.folds} folds; "
                "choose fewer folds"
            )
        parts = stratified_folds(data.y.numpy(), k=options.folds, seed=options.training.seed)
        return rotations(parts, test_folds=options.test_folds, rotations=options.rotations)
    return [[random_split(len(data), seed=seed)] for seed in options.seeds]
