"""The tuning grid of a cross-validation: its settings, their names, and what is trained as one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch

from legs.models import available
from legs.models.bounds import check_sizes
from legs.models.catalogue import _BUILDERS, _options_of
from legs.nn import FCN
from legs.training.methods import ENSEMBLES, HEAD_OPTIONS, check_method
from legs.training.runs import check_options

Setting = dict[str, Any]
# GS-SVM chooses by nested cross-validation, whatever the grid is.
MACHINE_CHOICE = "its own C and gamma"


def grid_of(values: Mapping[str, Sequence[Any]]) -> tuple[Setting, ...]:
    """Every combination of values; the last option changes fastest.

    Args:
        values: to try, by option.

    >>> grid_of({"lr": [0.01, 0.001], "dropout": [0]})
    ({'lr': 0.01, 'dropout': 0}, {'lr': 0.001, 'dropout': 0})
    """
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))


def setting_name(setting: Mapping[str, Any]) -> str:
    """A setting in words.

    >>> setting_name({"lr": 0.003, "aggr": "mean", "lowpass": True}), setting_name({})
    ('lr=0.003, aggr=mean, lowpass=true', 'defaults')
    """
    shown = [
        f"{name}={value if isinstance(value, str) else json.dumps(value, default=repr)}"
        for name, value in setting.items()
    ]
    return ", ".join(shown) or "defaults"


def chosen_names(method: str, chosen: Sequence[int], grid: Sequence[Setting]) -> list[str]:
    """What each test set of a method chose, in words.

    Args:
        method: its name.
        chosen: number of the setting, by test set.
        grid: the settings.

    >>> chosen_names("gcn", [1, 0], [{"lr": 0.01}, {"lr": 0.001}])
    ['lr=0.001', 'lr=0.01']
    """
    if method == "gs-svm":
        return [MACHINE_CHOICE] * len(chosen)
    return [setting_name(grid[number]) for number in chosen]


def stacks(grid: Sequence[Setting]) -> list[list[int]]:
    """Numbers of settings that can be trained as one stack: they differ in ``lr`` alone.

    Dropout could not: a layer has one rate for all models of a stack.

    >>> stacks([{"lr": 0.1}, {"lr": 0.1, "steps": 8}, {"lr": 0.2}, {}])
    [[0, 2, 3], [1]]
    """
    found: dict[str, list[int]] = {}
    for number, setting in enumerate(grid):
        key = json.dumps(_architecture(setting), sort_keys=True, default=repr)
        found.setdefault(key, []).append(number)
    return list(found.values())


def options_of(method: str) -> list[str]:
    """Options of a method that a grid can vary.

    >>> options_of("gcn-legs-fcn"), options_of("gs-svm")
    (['lr', 'hidden_channels', 'dropout'], [])
    """
    if method in ENSEMBLES:
        return ["lr", *HEAD_OPTIONS]
    if method not in available():
        return []
    build, fixed = _BUILDERS[method]
    return ["lr", *sorted(_options_of(build) - set(fixed))]


def check_grid(methods: Sequence[str], grid: Sequence[Setting]) -> None:
    """A clear error for what a method of a cross-validation does not take, before it is trained.

    GS-SVM takes none of a grid's options, and may stand beside methods that do: it has a grid of
    its own, C and γ.

    Args:
        methods: names.
        grid: the settings.

    >>> check_grid(["gcn-legs-fcn"], [{"order": 1}])
    Traceback (most recent call last):
    ...
    ValueError: gcn-legs-fcn has no option 'order'; it takes lr, hidden_channels, dropout
    """
    if not grid:
        raise ValueError("the grid has no settings; one without options is the default")
    for method in methods:
        check_method(method)
        if method != "gs-svm":
            for setting in grid:
                _check_setting(method, setting)
    if any(grid) and set(methods) == {"gs-svm"}:
        raise ValueError("gs-svm takes no options: it chooses C and gamma itself")


def _check_setting(method: str, setting: Setting) -> None:
    taken = options_of(method)
    for name in setting:
        if name not in taken:
            raise ValueError(f"{method} has no option {name!r}; it takes {', '.join(taken)}")
    lr = setting.get("lr", 1.0)
    if isinstance(lr, bool) or not isinstance(lr, int | float) or not 0 < lr < float("inf"):
        raise ValueError(f"lr must be a positive number; got {lr!r}")
    rest = _architecture(setting)
    if method not in ENSEMBLES:
        check_options(method, rest)
        return
    check_sizes(rest)
    try:
        with torch.device("meta"):
            FCN(2, 2, **rest)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{method} cannot be built with {setting_name(rest)}: {error}") from error


def _architecture(setting: Setting) -> Setting:
    return {name: value for name, value in setting.items() if name != "lr"}
