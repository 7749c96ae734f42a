"""Our numbers beside the paper's: one join for accuracies and errors, paired tests, rankings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import combinations, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from legs.data.statistics import Statistics, compare
from legs.training.cv.results import corrected_t_test
from reproduction.cell import Row
from reproduction.plan import Cell

NOT_RUN = "not run"
LEVEL = 0.05
LEGS = ("legs-", "mp-legs-")  # how names of LEGS networks begin
KEYS = ["data", "variant", "method"]
COPIED = ("mean", "std", "graphs", "parameters", "models", "seconds", "protocol", "device")
Spec = Mapping[str, Any]


def paper_table(name: str) -> pd.DataFrame:
    """Numbers of the paper: ``data``, ``variant``, ``method``, ``mean``, ``std``.

    The tables that ``legs report`` shows as well are part of the package, as one.
    """
    file = Path(__file__).parent / "paper" / f"{name}.csv"
    if file.is_file():
        return pd.read_csv(file)
    with (files("legs.data") / "paper_scores.csv").open(encoding="utf-8") as stream:
        table = pd.read_csv(stream).melt("data", var_name="method", value_name="score").dropna()
    table[["mean", "std"]] = table.pop("score").str.split(" ± ", expand=True).astype(float)
    return table.assign(variant="")


def compared(spec: Spec, cells: Sequence[Cell], rows: Mapping[str, Row]) -> pd.DataFrame:
    """One row per cell, whether it was run or not: our numbers, the paper's, and the difference.

    ``within_one`` says whether the difference is within one standard error of it,
    :math:`\\sqrt{s_1^2 / n + s_2^2 / k}` with the paper's ``n`` and our ``k`` test sets.
    """
    plan = pd.DataFrame([(c.data, c.variant, c.method) for c in cells], columns=KEYS)
    ours = pd.DataFrame([_numbers(row) for row in rows.values()], columns=_NUMBERS)
    table = plan.merge(_paper(spec), on=KEYS, how="left").merge(ours, on=KEYS, how="left")
    table.insert(3, "status", np.where(table["mean"].isna(), NOT_RUN, "run"))
    comparable = table["paper_note"].isna()
    table["difference"] = (table["mean"] - table["paper_mean"]).where(comparable)
    own, theirs = table["std"] ** 2 / table["sets"], table["paper_std"] ** 2 / spec["paper_runs"]
    table["combined_error"] = ((own + theirs) ** 0.5).where(comparable)
    near = table["difference"].abs() <= table["combined_error"]
    side = np.where(table["difference"] > 0, "no, above", "no, below")
    table["within_one"] = pd.Series(np.where(near, "yes", side)).where(table["difference"].notna())
    return table[[name for name in _COLUMNS if name in KEYS or table[name].notna().any()]]


_HEADS = {"graphs": "# Graphs", "classes": "# Classes", "clustering": "CC"}
_NUMBERS = [
    *KEYS, *COPIED, "baseline", "chosen", "train_mean", "train_std", "r2_mean", "r2_std", "sets",
]  # fmt: skip
_COLUMNS = [
    *KEYS, "status", "paper_mean", "paper_std", "paper_note", "mean", "std", "difference",
    "combined_error", "within_one", "train_mean", "train_std", "baseline", "r2_mean", "r2_std",
    "graphs", "parameters", "models", "seconds", "chosen", "protocol", "device",
]  # fmt: skip


def _numbers(row: Row) -> dict[str, Any]:
    numbers = {name: row[name] for name in (*KEYS, *COPIED)}
    numbers |= {"baseline": np.mean(row["guess"]), "sets": len(row["scores"])}
    counted = Counter(row["chosen"]).most_common()
    several = ", ".join(f"{name} ({count})" for name, count in counted)
    numbers["chosen"] = several if len(counted) > 1 else counted[0][0]
    for name in ("train", "r2"):
        if row.get(name):
            numbers |= {f"{name}_mean": np.mean(row[name]), f"{name}_std": np.std(row[name])}
    return numbers


def _paper(spec: Spec) -> pd.DataFrame:
    columns = {"mean": "paper_mean", "std": "paper_std"}
    if "paper" not in spec:
        return pd.DataFrame(columns=[*KEYS, *columns.values(), "paper_note"])
    table = paper_table(spec["paper"]).rename(columns=columns)
    parts = [table.assign(paper_note=spec.get("not_comparable"))]
    for here, there in spec.get("stand_in", {}).items():
        parts.append(table[table["data"] == there].assign(data=here, paper_note=there))
    return pd.concat(parts)[[*KEYS, *columns.values(), "paper_note"]]


def shown(table: pd.DataFrame, spec: Spec, is_error: bool) -> pd.DataFrame:
    """The same for people."""
    digits = spec["digits"]
    page = table[["data", *(["variant"] if table["variant"].any() else []), "method"]].copy()
    if "paper_mean" in table:
        page["paper"] = spread(table, "paper_mean", "paper_std", digits)
    if "paper_note" in table:
        notes = table["paper_note"].fillna("")
        page["paper"] += notes.where(notes == "", " (" + notes + ")")
    page["ours"] = spread(table, "mean", "std", digits).mask(table["status"] == NOT_RUN, NOT_RUN)
    baseline = "mean predictor" if is_error else "majority class"
    for name, column, form in (
        ("difference", "difference", f"+.{digits}f"),
        ("standard error", "combined_error", f".{digits}f"),
        ("within one", "within_one", ""),
        (baseline, "baseline", f".{digits}f"),
        *((name, name, ",.0f") for name in ("graphs", "parameters", "models", "seconds")),
        *((name, name, "") for name in ("chosen", "protocol", "device")),
    ):
        if column in table:
            page[name] = table[column].map(lambda v, f=form: "" if pd.isna(v) else format(v, f))
    for place, (name, column, decimals) in enumerate((("train", "train", digits), ("R²", "r2", 3))):
        if f"{column}_mean" in table:
            text = spread(table, f"{column}_mean", f"{column}_std", decimals)
            page.insert(page.columns.get_loc(baseline) + place, name, text)
    return page


def spread(table: pd.DataFrame, mean: str, std: str, digits: int) -> pd.Series:
    """Mean ± standard deviation as text; empty where there is none."""
    if mean not in table:
        return pd.Series("", index=table.index)
    texts = map(with_deviation, table[mean], table[std], repeat(digits))
    return pd.Series(list(texts), index=table.index)


def with_deviation(mean: float, std: float, digits: int) -> str:
    """A mean and its standard deviation.

    >>> with_deviation(0.2164, 0.009, 3), with_deviation(float("nan"), 0.1, 3)
    ('0.216 ± 0.009', '')
    """
    if pd.isna(mean):
        return ""
    return f"{mean:.{digits}f}" if pd.isna(std) else f"{mean:.{digits}f} ± {std:.{digits}f}"


def overview(table: pd.DataFrame, spec: Spec, is_error: bool) -> pd.DataFrame:
    """One row per data set and variant, one column per method; in brackets the paper's mean."""
    text = spread(table, "mean", "std", spec["digits"]).mask(table["status"] == NOT_RUN, NOT_RUN)
    if "paper_mean" in table:
        notes = table["paper_note"].notna() if "paper_note" in table else False
        star = np.where(notes, "*", "")
        paper = table["paper_mean"].map(lambda v: "" if pd.isna(v) else f" ({v:.{spec['digits']}f}")
        text += paper.where(paper == "", paper + star + ")")
    label = label_of(table)
    named = table.assign(label=label, text=text)
    wide = named.pivot(index="label", columns="method", values="text")
    wide = wide.loc[list(dict.fromkeys(label)), list(dict.fromkeys(table["method"]))].fillna("")
    if "baseline" in table:
        first = table.groupby(label)["baseline"].first()
        text = first.map(lambda v: "" if pd.isna(v) else f"{v:.{spec['digits']}f}")
        wide.insert(0, "mean predictor" if is_error else "majority class", text)
    return wide.rename_axis(index="data", columns=None).reset_index()


def label_of(table: pd.DataFrame) -> pd.Series:
    """Data set and variant."""
    return table["data"] + table["variant"].map(lambda text: f", {text}" if text else "")


def tally(table: pd.DataFrame, is_error: bool) -> pd.DataFrame:
    """How often a method reaches the paper's mean."""
    if "difference" not in table:
        return pd.DataFrame()
    both = table[table["difference"].notna()]
    better = both["difference"] <= 0 if is_error else both["difference"] >= 0
    within = both["within_one"] == "yes"
    flags = {"cells": True, "at least as good as the paper's mean": better}
    flags |= {"within one standard error": within, "better by more": better & ~within}
    flags |= {"worse by more": ~better & ~within}
    return pd.DataFrame(flags).groupby(both["method"], sort=False).sum().reset_index()


def same_splits(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows in groups whose scores are of the same test graphs."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        options = row["settings"]["options"]
        drawn = (options["folds"], options["test_folds"], options["training"]["seed"])
        same = (row["data"], row["variant"], row["fingerprint"], row.get("splits", drawn))
        groups.setdefault(repr(same), []).append(row)
    return list(groups.values())


def paired(rows: Sequence[Row]) -> pd.DataFrame:
    """Every LEGS network against every other method by the corrected resampled t-test.

    ``difference`` is LEGS minus the other, ``error`` its standard error over test sets. LEGS
    networks are compared with each other once.
    """
    tests = []
    for group in same_splits(rows):
        for first, second in combinations(group, 2):
            ours, other = (first, second) if first["method"].startswith(LEGS) else (second, first)
            if not ours["method"].startswith(LEGS):
                continue
            test = corrected_t_test(ours["scores"], other["scores"], ours["test_fraction"])
            share = 100 * test.difference / other["mean"] if other["mean"] else np.nan
            error = stats.sem(np.subtract(ours["scores"], other["scores"]))
            names = (ours["data"], ours["variant"], ours["method"], other["method"])
            tests.append((*names, test.difference, share, error, test.t, test.p))
    columns = ["data", "variant", "legs", "other", "difference", "per_cent", "error", "t", "p"]
    return pd.DataFrame(tests, columns=columns)


def summary(pairs: pd.DataFrame, is_error: bool) -> pd.DataFrame:
    """How often a LEGS network is ahead of another method."""
    gain = pairs["difference"] * (-1 if is_error else 1)
    significant = pairs["p"] < LEVEL
    flags = {"sets": True, "ahead": gain > 0, f"ahead, p < {LEVEL}": (gain > 0) & significant}
    flags |= {"behind": gain < 0, f"behind, p < {LEVEL}": (gain < 0) & significant}
    keys = [pairs["legs"].rename("LEGS"), pairs["other"]]
    table = pd.DataFrame(flags, index=pairs.index).groupby(keys, sort=False).sum()
    column, form = ("per_cent", "{:+.1f}") if is_error else ("difference", "{:+.2f}")
    mean = pairs[column].groupby(keys, sort=False).mean().map(form.format)
    table.insert(1, "mean difference, %" if is_error else "mean difference", mean)
    return table.reset_index()


def ranking(rows: Sequence[Row], digits: int) -> pd.DataFrame:
    """Methods by their error, the smallest first, each compared with the first."""
    ranked = []
    for group in same_splits(rows):
        order = sorted(group, key=lambda row: float(row["mean"]))
        for rank, row in enumerate(order, start=1):
            test = corrected_t_test(row["scores"], order[0]["scores"], row["test_fraction"])
            ranked.append(
                {
                    "data": row["data"],
                    **({"split": row["variant"]} if row["variant"] else {}),
                    "rank": rank,
                    "method": row["method"],
                    "MSE": with_deviation(row["mean"], row["std"], digits),
                    "behind the first": f"{test.difference:+.{digits}f}" if rank > 1 else "",
                    "p": f"{test.p:.3f}" if rank > 1 and test.p == test.p else "",
                    "parameters": f"{row['parameters']:,}",
                }
            )
    return pd.DataFrame(ranked)


def by_target(
    rows: Sequence[Row], paper: Mapping[tuple[str, str], float] = MappingProxyType({})
) -> pd.DataFrame:
    """Errors of standardized targets by target and method; in brackets the paper's means."""
    columns: dict[str, list[str]] = {"target": [*rows[0]["targets"], "mean"]}
    for row in rows:
        errors = np.asarray(row["by_target"])
        errors = np.concatenate([errors, np.nanmean(errors, axis=1, keepdims=True)], axis=1)
        ours = map(with_deviation, errors.mean(0), errors.std(0), repeat(3))
        theirs = [paper.get((target, row["method"])) for target in columns["target"]]
        printed = ["" if mean is None else f" ({mean:.3f})" for mean in theirs]
        columns[row["method"]] = list(map(str.__add__, ours, printed))
    return pd.DataFrame(columns)


def statistics_tables(rows: Sequence[Row]) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Statistics of data sets: for programs, for people, and what differs from the paper."""
    numbers, page, notes = [], [], []
    for row in rows:
        line = {"data": row["data"]}
        for one in compare(Statistics(row["data"], **row["statistics"])):
            head = _HEADS.get(one.quantity, one.quantity.capitalize())
            decimals = len(one.printed.partition(".")[2])
            line[head] = f"{one.ours:,.{decimals}f} ({one.printed})"
            numbers.append((row["data"], one.quantity, one.ours, float(one.printed), one.agrees))
            if not one.agrees:
                notes.append(f"{row['data']}, {one.quantity}: differs.")
        page.append({**line, "connected": f"{row['statistics']['connected']:.1%}"})
    if rows and not notes:
        notes = [f"All numbers of {len(rows)} data sets agree to the printed digits."]
    columns = ["data", "quantity", "ours", "paper", "agrees"]
    return pd.DataFrame(numbers, columns=columns), pd.DataFrame(page), notes
