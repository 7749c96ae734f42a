"""What ``legs cv`` chooses from: a list of settings, or values by option."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from legs.cli.choices import parse_value


def parse_grid(
    grid: str | None = None, tune: Sequence[str] | None = None
) -> tuple[dict[str, Any], ...]:
    """The settings to choose from, as given in one of two ways.

    Args:
        grid: a JSON list of settings.
        tune: options with their values, for all combinations of them.

    >>> parse_grid(tune=["lr=0.01,0.001", "steps=8"])
    ({'lr': 0.01, 'steps': 8}, {'lr': 0.001, 'steps': 8})
    """
    from legs.training.cv.protocol import grid_of

    if tune and grid is not None:
        raise ValueError("--tune and --grid say the same in two ways; use one of them")
    if tune:
        return grid_of(parse_tune(tune))
    if grid is None:
        return ({},)
    try:
        found = json.loads(grid, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("--grid must be JSON: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"--grid must be JSON: {error}") from None
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found) or not found:
        raise ValueError('--grid must be a list of settings, e.g. [{"lr": 0.01}, {"lr": 0.001}]')
    return tuple(found)


def parse_tune(tune: Sequence[str]) -> dict[str, list[Any]]:
    """Values by option; they are JSON numbers, true, false and null, or else words.

    Args:
        tune: ``NAME=VALUE,VALUE``, once for every name.

    >>> parse_tune(["lr=0.001,0.003", "learn-laziness=false,channel"])
    {'lr': [0.001, 0.003], 'learn_laziness': [False, 'channel']}
    """
    found: dict[str, list[Any]] = {}
    for given in tune:
        name, _, text = given.partition("=")
        name = name.strip().replace("-", "_")
        words = [word.strip() for word in text.split(",")]
        if not name.isidentifier() or not all(words):
            example = "NAME=VALUE,VALUE, such as lr=0.001,0.003"
            raise ValueError(f"--tune takes {example}; got {given!r}")
        if name in found:
            raise ValueError(f"--tune gives {name} twice; put its values into one list")
        if any(mark in text for mark in "[]{}"):
            raise ValueError(f"--tune takes numbers and words, not {text}; use --grid for lists")
        found[name] = [parse_value(word, "--tune") for word in words]
        if len(set(map(repr, found[name]))) < len(words):
            raise ValueError(f"--tune gives a value of {name} twice: {text}")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a finite number")
