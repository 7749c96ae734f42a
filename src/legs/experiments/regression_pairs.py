"""Rankings of a regression study, and every LEGS network against every other method."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from legs.experiments.ledger import Row
from legs.experiments.pairs import LEVEL, is_legs
from legs.training.votes import corrected_t_test

COLUMNS = ["data", "variant", "legs", "other", "difference", "per_cent", "t", "p"]


def same_splits(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows whose scores are of the same test graphs, by data set and variant.

    Where a folder holds several such groups (runs with other seeds), the largest counts.
    """
    groups: dict[tuple[str, str], dict[tuple[str, ...], list[Row]]] = {}
    for row in rows:
        if not row["settings"]["shuffled"]:
            same = (row["fingerprint"], *row["splits"])
            found = groups.setdefault((row["data"], row["variant"]), {})
            found.setdefault(same, []).append(row)
    return {name: max(found.values(), key=len) for name, found in groups.items()}


def paired(rows: Iterable[Row]) -> pd.DataFrame:
    """Differences of errors and the corrected resampled t-test, a row a pair and data set.

    A negative difference: LEGS has the smaller error. LEGS networks meet each other once.

    Args:
        rows: finished cells.
    """
    found = []
    for (data, variant), group in same_splits(rows).items():
        for place, ours in enumerate(group):
            for other_place, other in enumerate(group):
                both = is_legs(other["method"]) and other_place <= place
                if not is_legs(ours["method"]) or both:
                    continue
                test = corrected_t_test(ours["scores"], other["scores"], ours["test_fraction"])
                share = 100 * test.difference / other["mean"] if other["mean"] else float("nan")
                names = (data, variant, ours["method"], other["method"])
                found.append((*names, test.difference, share, test.t, test.p))
    return pd.DataFrame(found, columns=COLUMNS)


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """How often a LEGS network has the smaller error: a row a pair.

    Args:
        pairs: of :func:`paired`.
    """
    rows = []
    for (ours, other), group in pairs.groupby(["legs", "other"], sort=False):
        sure = group["p"] < LEVEL
        ahead, behind = group["difference"] < 0, group["difference"] > 0
        rows.append(
            {
                "LEGS": ours,
                "other": other,
                "tables": len(group),
                "mean difference, %": f"{group['per_cent'].mean():+.1f}",
                "smaller error": int(ahead.sum()),
                f"smaller, p < {LEVEL}": int((ahead & sure).sum()),
                "larger error": int(behind.sum()),
                f"larger, p < {LEVEL}": int((behind & sure).sum()),
            }
        )
    return pd.DataFrame(rows)


def ranking(rows: Iterable[Row], style: str = ".3f") -> pd.DataFrame:
    """Methods by their error, the smallest first, each compared with the first.

    Args:
        rows: finished cells.
        style: how errors are written (default: with three digits).
    """
    found = []
    for (data, variant), group in same_splits(rows).items():
        order = sorted(group, key=lambda row: float(row["mean"]))
        first = order[0]
        for rank, row in enumerate(order, start=1):
            test = corrected_t_test(row["scores"], first["scores"], row["test_fraction"])
            known = {"data": data} | ({"split": variant} if variant else {})
            found.append(
                {
                    **known,
                    "rank": rank,
                    "method": row["method"],
                    "MSE": f"{format(row['mean'], style)} ± {format(row['std'], style)}",
                    "behind the first": format(test.difference, f"+{style}") if rank > 1 else "",
                    "p": f"{test.p:.3f}" if rank > 1 and test.p == test.p else "",
                    "parameters": f"{row['parameters']:,}",
                }
            )
    return pd.DataFrame(found)
