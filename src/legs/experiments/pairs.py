"""Every LEGS variant against every other method, over the same test sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from legs.experiments.ledger import Row
from legs.training.votes import corrected_t_test

LEVEL = 0.05
COLUMNS = ["data", "variant", "legs", "other", "difference", "t", "p"]


def is_legs(method: str) -> bool:
    """Whether a method is a LEGS network by itself.

    >>> [is_legs(name) for name in ("legs-fcn", "gcn-legs-fcn", "mp-legs-fcn", "gcn")]
    [True, False, True, False]
    """
    return method.startswith(("legs-", "mp-legs-"))


def paired(rows: Iterable[Row]) -> pd.DataFrame:
    """Differences in per cent and the corrected resampled t-test, a row a pair and data set.

    Args:
        rows: finished cells; those of one data set and variant with the same partitions are
            compared.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        options = row["settings"]["options"]
        # Partitions follow from these; scores of others are not of the same graphs.
        same = (row["fingerprint"], options["folds"], options["test_folds"])
        key = (row["data"], row["variant"], *map(str, same), str(options["training"]["seed"]))
        groups.setdefault(key, []).append(row)
    found = []
    for (data, variant, *_), group in groups.items():
        for ours in group:
            for other in group:
                if is_legs(ours["method"]) and not is_legs(other["method"]):
                    test = corrected_t_test(ours["scores"], other["scores"], ours["test_fraction"])
                    names = (data, variant, ours["method"], other["method"])
                    found.append((*names, test.difference, test.t, test.p))
    return pd.DataFrame(found, columns=COLUMNS)


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """How often a LEGS variant is ahead of another method: a row a pair.

    Args:
        pairs: of :func:`paired`.
    """
    rows = []
    for (ours, other), group in pairs.groupby(["legs", "other"], sort=False):
        sure = group["p"] < LEVEL
        ahead, behind = group["difference"] > 0, group["difference"] < 0
        rows.append(
            {
                "LEGS": ours,
                "other": other,
                "sets": len(group),
                "mean difference": f"{group['difference'].mean():+.2f}",
                "ahead": int(ahead.sum()),
                f"ahead, p < {LEVEL}": int((ahead & sure).sum()),
                "behind": int(behind.sum()),
                f"behind, p < {LEVEL}": int((behind & sure).sum()),
            }
        )
    return pd.DataFrame(rows)


def points(rows: Sequence[Row]) -> dict[str, list[tuple[str, int, float, float]]]:
    """Method, parameters, mean and deviation by data set, for a figure."""
    found: dict[str, list[tuple[str, int, float, float]]] = {}
    for row in rows:
        name = ", ".join(filter(None, [row["data"], row["variant"]]))
        point = (row["method"], row["parameters"], row["mean"], row["std"])
        found.setdefault(name, []).append(point)
    return found
