"""Bounds on the sizes of models, checked before anything is allocated.

A few bytes of JSON, or an option on the command line, can ask for terabytes of weights or for hours
of listing paths. Saved models are also bounded by the weights beside their description.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

# Largest values by name; other whole numbers are bounded by the last.
_MOST = {"order": 16, "num_layers": 1_000, "num_scales": 1_000, "state_channels": 10_000}
_MOST_ANY = 10_000_000
_MOST_COLUMNS = 2_000_000
_OPTIONAL = {"reach"}  # absent from older models


def check_sizes(described: Any) -> None:
    """Raises ``ValueError`` for numbers in a description or in options that no model has.

    >>> check_sizes({"head": {"hidden_channels": 10**12}})
    Traceback (most recent call last):
    ...
    ValueError: hidden_channels is 1000000000000, more than any model has
    """
    waiting: list[tuple[str, Any]] = [("a size", described)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(str(key), inner) for key, inner in value.items()]
            _check_paths(value)
        elif isinstance(value, list | tuple):
            waiting += [(name, inner) for inner in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value}, not a finite number")
        elif isinstance(value, int) and abs(value) > _MOST.get(name, _MOST_ANY):
            raise ValueError(f"{name} is {value}, more than any model has")


def _check_paths(options: Mapping[str, Any]) -> None:
    """Bounds the columns of scattering: the number of paths is exponential in the order."""
    if not options.keys() & {"order", "num_scales", "scales"}:
        return  # of something else, such as a head, which may read very many columns
    order, scales = options.get("order", 2), options.get("num_scales", 5)
    channels = options.get("in_channels", 1)
    if isinstance(options.get("scales"), list | tuple):
        scales = len(options["scales"])
    if not all(isinstance(value, int) and value > 0 for value in (order, scales, channels)):
        return
    if order > _MOST["order"] or scales > _MOST["num_scales"]:
        return  # refused by check_sizes; counting their paths would not end
    policies = {options.get(name, "increasing") for name in ("path_policy", "paths")}
    count = math.comb if policies == {"increasing"} else pow  # there may be both names
    if sum(count(scales, k) for k in range(order + 1)) * channels > _MOST_COLUMNS:
        raise ValueError(
            f"scattering of order {order} with {scales} scales and {channels} channels has more "
            "columns than any model"
        )


def check_shapes(make: Callable[[], nn.Module], tensors: Mapping[str, Tensor]) -> None:
    """Raises ``ValueError`` unless the network that ``make`` builds has the shapes of ``tensors``.

    It is built without memory for its weights.
    """
    with torch.device("meta"):
        expected = {name: list(tensor.shape) for name, tensor in make().state_dict().items()}
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | shapes.keys()):
        if name not in expected:
            raise ValueError(f"there are weights {name}, which the network lacks")
        if name not in shapes and name.rpartition(".")[2] not in _OPTIONAL:
            raise ValueError(f"the weights {name} are missing")
        if (shape := shapes.get(name, expected[name])) != expected[name]:
            raise ValueError(f"the weights {name} have the shape {shape}, not {expected[name]}")
