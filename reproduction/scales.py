"""Learned scales: how far from dyadic ones, and the frequency responses of the filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from legs.functional import initial_logits
from legs.functional.scales import dyadic_scales
from legs.report import filter_bank
from reproduction.cell import Row

Array = np.ndarray[Any, Any]


def dyadic_weights(scales: int, steps: int) -> Array:
    """The selection matrix of dyadic scales, ``[scales, steps]``."""
    return np.eye(steps)[np.array(dyadic_scales(scales)) - 1]


def initial_weights(scales: int, steps: int) -> Array:
    """The selection matrix that learning starts from, ``[scales, steps]``."""
    logits = initial_logits(dyadic_scales(scales), steps)
    return np.asarray(torch.softmax(logits.double(), -1).numpy())


def facts(label: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Numbers for one data set and method, over all models of its cells, one per seed."""
    weights = np.concatenate([np.asarray(row["scales"]["weights"]) for row in rows])
    times = np.concatenate([np.asarray(row["scales"]["expected"]) for row in rows])
    hardened = Counter(tuple(one) for row in rows for one in row["scales"]["hardened"])
    (usual, count), *_ = hardened.most_common(1)
    mean = weights.mean(0)
    bank, start = filter_bank(mean), initial_weights(*mean.shape)
    steps = np.arange(1, mean.shape[1] + 1)
    return {
        "data": label,
        "method": rows[0]["method"],
        "seeds": len(rows),
        "models": len(times),
        "mean": float(np.mean([row["mean"] for row in rows])),
        "expected": times.mean(0).tolist(),
        "expected_std": times.std(0).tolist(),
        "hardened": list(usual),
        "hardened_share": count / hardened.total(),
        "weights": mean.tolist(),
        "from_dyadic": float(np.abs(times - np.array(dyadic_scales(len(mean)))).mean()),
        "from_start": float(np.abs(times - start @ steps).mean()),
        "lower_bound": bank.lower,
    }


def untrained(scales: int, steps: int) -> dict[str, Any]:
    """The same for the initial scales."""
    weights = initial_weights(scales, steps)
    times, whole = weights @ np.arange(1, steps + 1), dyadic_scales(scales)
    learned = {"weights": [weights], "expected": [times], "hardened": [whole]}
    start = facts("before training", [{"method": "", "mean": 0.0, "scales": learned}])
    return {k: v for k, v in start.items() if k not in ("seeds", "models", "mean")}


def shown(learned: Sequence[dict[str, Any]], score: str, digits: int) -> pd.DataFrame:
    """Facts for people; the mean is of ``score``."""
    rows = []
    for one in learned:
        both = zip(one["expected"], one["expected_std"], strict=True)
        whole = ", ".join(map(str, one["hardened"]))
        rows.append(
            {
                "data": one["data"],
                "method": one["method"],
                "models": f"{one['models']:,}" if "models" in one else "",
                score: f"{one['mean']:.{digits}f}" if "mean" in one else "",
                "expected scales": ", ".join(f"{a:.2f} ± {b:.2f}" for a, b in both),
                "nearest whole scales": f"{whole} ({one['hardened_share']:.0%})",
                "steps from dyadic": f"{one['from_dyadic']:.3f}",
                "steps from start": f"{one['from_start']:.3f}",
                "lower frame bound": f"{one['lower_bound']:.3f}",
            }
        )
    return pd.DataFrame(rows)
