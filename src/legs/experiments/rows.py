"""What is kept of a finished cell, as JSON values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from legs.experiments.cells import Cell
from legs.functional.scales import harden_scales
from legs.training import CVResult
from legs.training.cv_grid import chosen_names
from legs.training.cv_scores import MethodResult
from legs.training.fit import fingerprint

DIGITS = 4


def row_of(cell: Cell, result: CVResult, seconds: float) -> dict[str, Any]:
    """A finished cell; scores are accuracies in per cent.

    Args:
        cell: which it was.
        result: its cross-validation, of one method.
        seconds: that it took, all in all.
    """
    (found,) = result.methods
    split = result.splits[0][0]
    row = {
        "cell": cell.key,
        "data": cell.data,
        "method": cell.method,
        "variant": cell.variant,
        "protocol": cell.protocol,
        "mean": _rounded(100 * found.mean),
        "std": _rounded(100 * found.std),
        "scores": [_rounded(100 * score) for score in found.scores],
        "guess": [_rounded(100 * score) for score in result.guess],
        "graphs": len(result.data),
        "features": list(result.data.feature_names),
        # What the corrected t-test asks for.
        "test_fraction": len(split.test) / (len(split.train) + len(split.validation)),
        "parameters": found.parameters,
        "models": found.models,
        "seconds": round(seconds, 2),
        "chosen": chosen_names(cell.method, found.chosen, cell.options.grid),
        "way": found.way,
        "fingerprint": fingerprint(result.data),
        "settings": cell.settings(),
    }
    if found.scales:
        row["scales"] = scales_of(found)
    return row


def scales_of(found: MethodResult) -> dict[str, Any]:
    """Learned scales of the models behind the answers.

    Returns:
        ``weights``: of each test set the mean selection matrix ``[scales, steps]``; ``expected``:
        of each model the mean diffusion times ``[scales]``; ``hardened``: of each model the
        increasing whole scales nearest to its own.
    """
    models = torch.cat(found.scales).double()
    times = torch.arange(1, models.shape[-1] + 1, dtype=torch.float64)
    return {
        "weights": _listed(torch.stack([group.double().mean(0) for group in found.scales])),
        "expected": _listed(models @ times),
        "hardened": [list(harden_scales(weights)) for weights in models],
    }


def chosen_words(chosen: list[str]) -> str:
    """Which settings were chosen, the most frequent first.

    >>> chosen_words(["lr=0.01", "lr=0.001", "lr=0.01"])
    'lr=0.01 (2), lr=0.001 (1)'
    >>> chosen_words(["lr=0.01", "lr=0.01"])
    'lr=0.01'
    """
    counted = Counter(chosen).most_common()
    if len(counted) == 1:
        return counted[0][0]
    return ", ".join(f"{name} ({count})" for name, count in counted)


def _listed(tensor: Tensor) -> Any:
    # Adding zero makes -0.0 a plain zero.
    return tensor.mul(10**DIGITS).round().div(10**DIGITS).add(0.0).tolist()


def _rounded(value: float) -> float:
    return round(value, DIGITS)
