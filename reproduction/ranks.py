"""Methods over several data sets: average ranks and tests, as Demšar (2006) has them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from reproduction.tables import LEVEL, label_of


def common_means(table: pd.DataFrame) -> pd.DataFrame:
    """Means of all methods on the data sets that all of them have, ``[data sets, methods]``.

    Of all variants, averaged: they are not independent. What agrees to three decimals is equal.
    """
    run = table[table["status"] == "run"]
    wide = run.pivot(index="data", columns=["method", "variant"], values="mean").dropna()
    return wide.T.groupby("method", sort=False).mean().T.round(3)


def holm(p: pd.Series) -> pd.Series:
    """p-values by Holm's correction for so many tests."""
    rising = p.sort_values()
    return (rising * np.arange(len(p), 0, -1)).cummax().clip(upper=1)


def signed_rank(differences: pd.Series) -> float:
    """The p-value of Wilcoxon's signed-rank test."""
    return float(stats.wilcoxon(differences.round(6)).pvalue)


def ranked(means: pd.DataFrame) -> pd.DataFrame:
    """Methods by their average rank, each but the first compared with the first."""
    ranks = means.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
    first, *others = ranks.index
    behind = means[others].rsub(means[first], axis=0)
    p = behind.apply(signed_rank)
    found = {"mean": means.mean(), "behind": behind.mean(), "p": p, "holm": holm(p)}
    return ranks.to_frame("rank").join(pd.DataFrame(found)).rename_axis("method").reset_index()


def critical_difference(methods: int, sets: int) -> float:
    """Nemenyi's: average ranks that are further apart differ significantly."""
    quantile = stats.studentized_range.ppf(1 - LEVEL, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * sets)))


def learned_against_fixed(pairs: pd.DataFrame) -> pd.DataFrame:
    """LEGS-FCN minus LEGS-FIXED by data set and, from three on, over all of them."""
    own = pairs[(pairs["legs"] == "legs-fcn") & (pairs["other"] == "legs-fixed")]
    table = own[["difference", "error", "p"]].set_axis(label_of(own))
    each = own.groupby("data")["difference"].mean()
    if len(each) > 2:
        table.loc[f"{len(each)} data sets"] = (each.mean(), each.sem(), signed_rank(each))
    return table.rename(columns={"error": "standard error"}).rename_axis("data").reset_index()
