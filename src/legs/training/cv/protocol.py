"""The protocol of a cross-validation: splits by test set and model, and the grid of settings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import numpy as np

from legs.data import splits as partitions
from legs.data.dataset import GraphDataset
from legs.data.splits import GroupBy, Indices, Split, find_groups, warn_about_leaks
from legs.training.fit import SplitKind, default_split, main_smiles
from legs.training.methods import BLENDS, check_method, check_options, options_of
from legs.training.options import TrainingOptions

Setting = dict[str, Any]


@dataclass(frozen=True)
class CVOptions:
    """How to cross-validate; the defaults are the paper's protocol.

    Args:
        folds: number of partitions (default 10).
        rotations: models per test set, each with another partition to validate (default: all, nine
            for ten partitions). 1 trains one model per test set.
        test_folds: consecutive partitions in a test set (default 1; 2, 5 or 7 for the paper's
            reduced training data).
        seeds: of random 80/10/10 splits, for regression (default 0 to 3).
        training: how to train each model.
        grid: settings to choose from on validation loss, each a dictionary of model options and
            ``lr`` (default: none, the model's own defaults); see :func:`grid_of`.
    """

    folds: int = 10
    rotations: int | None = None
    test_folds: int = 1
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    grid: tuple[dict[str, Any], ...] = ({},)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        own = {
            "seeds": list(self.seeds),
            "grid": list(self.grid),
            "training": self.training.to_json(),
        }
        return {**asdict(self), **own}


def plan_splits(
    data: GraphDataset,
    options: CVOptions,
    splits: list[Split] | SplitKind | None = None,
    group_by: GroupBy = "auto",
) -> list[list[Split]]:
    """Splits by test set, and within it by model; the same for every method.

    Classes are stratified, continuous targets split at random by seed. ``splits`` and ``group_by``
    are those of :func:`legs.training.cross_validate`.
    """
    groups = find_groups(data, group_by)
    if splits is not None and not isinstance(splits, str):
        planned = [[split] for split in splits]
    elif data.task == "classification":
        planned = _rotated_folds(data, options, splits or "random", groups)
    else:
        kind: SplitKind = splits or "random"
        seeds = options.seeds
        planned = [[default_split(data, seed, kind=kind, group_by=groups)] for seed in seeds]
    warn_about_leaks([split for models in planned for split in models], groups, stacklevel=4)
    return planned


def _rotated_folds(
    data: GraphDataset, options: CVOptions, kind: SplitKind, groups: Indices | None
) -> list[list[Split]]:
    assert data.y is not None
    y, k, seed = data.y.numpy(), options.folds, options.training.seed
    smallest = int(np.bincount(y).min())
    if smallest < k:
        raise ValueError(
            f"the rarest class has {smallest} graphs, fewer than the {k} folds; choose fewer folds"
        )
    if kind == "scaffold":
        parts = partitions.scaffold_folds(main_smiles(data), k, seed, np.array(data.class_names)[y])
    elif groups is not None:
        parts = partitions.balanced_group_folds(groups, np.full(k, 1 / k), data.y, seed)
    else:
        parts = partitions.stratified_folds(y, k=k, seed=seed)
    return partitions.rotations(parts, test_folds=options.test_folds, rotations=options.rotations)


def grid_of(values: Mapping[str, Sequence[Any]]) -> tuple[Setting, ...]:
    """Every combination of values by option; the last option changes fastest."""
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))


def setting_name(setting: Mapping[str, Any]) -> str:
    """A setting in words, such as ``lr=0.003, lowpass=true``."""
    words = (v if isinstance(v, str) else json.dumps(v, default=repr) for v in setting.values())
    return ", ".join(map("{}={}".format, setting, words)) or "defaults"


def stacks(grid: Sequence[Setting]) -> list[list[int]]:
    """Numbers of settings that can be trained as one stack: they differ in ``lr`` alone.

    Dropout could not: a layer has one rate for all models of a stack.
    """
    by_architecture: dict[str, list[int]] = {}
    for number, setting in enumerate(grid):
        key = json.dumps(_architecture(setting), sort_keys=True, default=repr)
        by_architecture.setdefault(key, []).append(number)
    return list(by_architecture.values())


def check_grid(methods: Sequence[str], grid: Sequence[Setting]) -> None:
    """A clear error for settings that a method does not take, before anything is trained.

    GS-SVM has a grid of its own, C and γ, and may stand beside methods that take others.
    """
    if not grid:
        raise ValueError("the grid has no settings; one without options is the default")
    for method in methods:
        check_method(method)
        if method in BLENDS:
            raise ValueError(f"{method} has inner folds of its own; use it with legs train")
        options = ["lr", *options_of(method)]
        for setting in () if method == "gs-svm" else grid:
            if unknown := [name for name in setting if name not in options]:
                taken = ", ".join(options)
                raise ValueError(f"{method} has no option {unknown[0]!r}; it takes {taken}")
            lr = setting.get("lr", 1.0)
            if isinstance(lr, bool) or not isinstance(lr, int | float) or not 0 < lr < math.inf:
                raise ValueError(f"lr must be a positive number; got {lr!r}")
            check_options(method, _architecture(setting))
    if any(grid) and set(methods) == {"gs-svm"}:
        raise ValueError("gs-svm takes no options: it chooses C and gamma itself")


def _architecture(setting: Setting) -> Setting:
    return {name: value for name, value in setting.items() if name != "lr"}
