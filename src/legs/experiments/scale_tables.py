"""Which scales were learned: how far from dyadic ones, and what the filters let through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from legs.experiments.ledger import Row
from legs.functional import initial_logits
from legs.functional.frame import filter_responses, frame_bounds
from legs.functional.scales import dyadic_scales

Floats = npt.NDArray[np.float64]
# Frequencies 1 - λ at which responses are drawn.
POINTS = 101


def dyadic_weights(scales: int, steps: int) -> Floats:
    """The selection matrix of dyadic scales, ``[scales, steps]``.

    >>> dyadic_weights(2, 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    found = np.zeros((scales, steps))
    found[np.arange(scales), np.array(dyadic_scales(scales)) - 1] = 1
    return found


def initial_weights(scales: int, steps: int) -> Floats:
    """The selection matrix that learning starts from, ``[scales, steps]``."""
    logits = initial_logits(dyadic_scales(scales), steps)
    return np.asarray(torch.softmax(logits.double(), -1).numpy(), dtype=np.float64)


def expected(weights: Floats) -> Floats:
    """Mean diffusion time of every row, ``[..., scales]``.

    >>> expected(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])).tolist()
    [1.5, 3.0]
    """
    times = np.arange(1, weights.shape[-1] + 1)
    return np.asarray(weights @ times, dtype=np.float64)


def total_variation(first: Floats, second: Floats) -> Floats:
    """Half the sum of absolute differences of rows, ``[..., scales]``: 0 if equal, 1 if disjoint.

    >>> total_variation(np.array([[0.75, 0.25]]), np.array([[1.0, 0.0]])).tolist()
    [0.25]
    """
    return np.asarray(np.abs(first - second).sum(-1) / 2, dtype=np.float64)


def cumulative(weights: Floats) -> Tensor:
    """The cumulative form ``[scales, steps]`` that filters are made of.

    >>> cumulative(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    tensor([[0., 1., 1.],
            [0., 0., 0.]], dtype=torch.float64)
    """
    sums = np.cumsum(weights, axis=-1)[..., :-1]
    return torch.from_numpy(np.concatenate([np.zeros_like(weights[..., :1]), sums], axis=-1))


def responses(weights: Floats) -> tuple[Floats, Floats]:
    """Frequencies ``[points]`` and the filters' responses ``[scales + 1, points]``."""
    frequency = np.linspace(0, 1, POINTS)
    found = filter_responses(cumulative(weights), torch.from_numpy(1 - frequency))
    return frequency, np.asarray(found.numpy(), dtype=np.float64)


def facts(label: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Numbers for one data set and method, over all models of all seeds.

    Args:
        label: what to call it.
        rows: finished cells with scales, one a seed.
    """
    # By test set and seed; [sets, scales, steps].
    weights = np.concatenate([np.asarray(row["scales"]["weights"]) for row in rows])
    times = np.concatenate([np.asarray(row["scales"]["expected"]) for row in rows])
    hardened = Counter(tuple(one) for row in rows for one in row["scales"]["hardened"])
    (usual, count), *_ = hardened.most_common(1)
    known = _distances(weights.mean(0), times)
    return {
        "data": label,
        "method": rows[0]["method"],
        "seeds": len(rows),
        "models": len(times),
        "mean": float(np.mean([row["mean"] for row in rows])),
        "expected": times.mean(0).tolist(),
        "expected_std": times.std(0).tolist(),
        "hardened": list(usual),
        "hardened_share": count / len(times),
        "weights": weights.mean(0).tolist(),
        **known,
    }


def untrained(scales: int, steps: int) -> dict[str, Any]:
    """The same numbers for the bank that learning starts from."""
    weights = initial_weights(scales, steps)
    return {
        "data": "before training",
        "method": "",
        "expected": expected(weights).tolist(),
        "expected_std": [0.0] * scales,
        "hardened": list(dyadic_scales(scales)),
        "hardened_share": 1.0,
        "weights": weights.tolist(),
        **_distances(weights, expected(weights)[None]),
    }


def _distances(weights: Floats, times: Floats) -> dict[str, float]:
    scales, steps = weights.shape
    start = initial_weights(scales, steps)
    lower, upper = frame_bounds(cumulative(weights))
    return {
        "from_dyadic": float(np.abs(times - np.array(dyadic_scales(scales))).mean()),
        "variation_from_dyadic": float(
            total_variation(weights, dyadic_weights(scales, steps)).mean()
        ),
        "from_start": float(np.abs(times - expected(start)).mean()),
        "variation_from_start": float(total_variation(weights, start).mean()),
        "lower_bound": lower,
        "upper_bound": upper,
    }


def shown(
    found: Sequence[dict[str, Any]], score: str = "accuracy", style: str = ".2f"
) -> pd.DataFrame:
    """Facts for people.

    Args:
        found: of :func:`facts`.
        score: what the mean is of (default: accuracy).
        style: how it is written (default: with two digits).
    """
    rows = []
    for one in found:
        spread = zip(one["expected"], one["expected_std"], strict=True)
        share = one["hardened_share"]
        rows.append(
            {
                "data": one["data"],
                "method": one["method"],
                "models": f"{one['models']:,}" if "models" in one else "",
                score: format(one["mean"], style) if "mean" in one else "",
                "expected scales": ", ".join(f"{a:.2f} ± {b:.2f}" for a, b in spread),
                "nearest whole scales": f"{_listed(one['hardened'])} ({share:.0%})",
                "steps from dyadic": f"{one['from_dyadic']:.3f}",
                "variation from dyadic": f"{one['variation_from_dyadic']:.3f}",
                "steps from start": f"{one['from_start']:.3f}",
                "variation from start": f"{one['variation_from_start']:.3f}",
                "lower frame bound": f"{one['lower_bound']:.3f}",
            }
        )
    return pd.DataFrame(rows)


def screen(found: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The most important facts, in 80 columns."""
    several = len({one["method"] for one in found} - {""}) > 1
    rows = [
        {
            "data": one["data"],
            **({"method": one["method"]} if several else {}),
            "expected scales": ", ".join(f"{time:.2f}" for time in one["expected"]),
            "whole": _listed(one["hardened"]),
            "steps": f"{one['from_dyadic']:.3f}",
            "variation": f"{one['variation_from_dyadic']:.3f}",
        }
        for one in found
    ]
    return pd.DataFrame(rows)


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
