"""The published numbers once more, from the scores in the cells, by nothing but numpy and scipy."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaincc, stdtr

RESULTS = Path(__file__).parents[2] / "docs" / "results"
RANKED = sorted(path.parent.name for path in RESULTS.glob("*/ranks.csv"))
PAIRED = sorted(
    path.parent.name
    for path in RESULTS.glob("*/results.md")
    if "## Learned against fixed scales" in path.read_text(encoding="utf-8")
)


def cells_of(name):
    """By data set, variant and method."""
    rows = [json.loads(file.read_text()) for file in (RESULTS / name / "cells").glob("*.json")]
    return {(row["data"], row["variant"], row["method"]): row for row in rows}


def page_of(name):
    return (RESULTS / name / "results.md").read_text(encoding="utf-8")


def table_of(page, heading):
    """The table below a heading, as rows of cells, the names of the columns first."""
    lines = page.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return [rows[0], *rows[2:]]


def ranks_of(values):
    """1 for the largest; the mean of their places where values are equal."""
    above = (values[None, :] > values[:, None]).sum(1)
    return above + ((values[None, :] == values[:, None]).sum(1) + 1) / 2


def signed_rank_p(differences):
    """Two-sided, from all signs that the differences might have had."""
    differences = differences[differences != 0]
    ranks = ranks_of(-np.abs(differences))
    signs = np.array(list(itertools.product((0, 1), repeat=len(ranks))))
    sums, own = signs @ ranks, ranks[differences > 0].sum()
    return min(1, 2 * min((sums <= own).mean(), (sums >= own).mean()))


def common(name):
    """Means of the methods on the data sets that all have: ``[data sets, methods]``."""
    cells = cells_of(name)
    sets, variants, methods = (sorted(set(names)) for names in zip(*cells, strict=True))
    means = [
        [
            np.mean([np.mean(cells[data, k, method]["scores"]) for k in variants])
            for method in methods
        ]
        for data in sets
        if all((data, k, method) in cells for k in variants for method in methods)
    ]
    # Scores have four decimals: as many would tell apart what is equal.
    return methods, np.array(means).round(3)


def test_there_are_some():
    assert {"classification", "classification-labels", "classification-deep"} <= set(RANKED)
    assert {"classification", "classification-labels", "qm9", "zinc"} <= set(PAIRED)


@pytest.mark.parametrize("name", [*RANKED, "qm9", "zinc"])
def test_entries_of_the_table(name):
    cells, entries = cells_of(name), pd.read_csv(RESULTS / name / "results.csv")
    digits = 3 if "qm9" in name or "zinc" in name else 2
    entries["variant"] = entries["variant"].astype(object).fillna("")
    run = entries[entries["status"] == "run"]
    assert len(run) == len(cells)
    page = page_of(name)
    for row in run.itertuples():
        scores = np.array(cells[row.data, row.variant, row.method]["scores"])
        assert row.mean == pytest.approx(scores.mean(), abs=2e-4)
        assert row.std == pytest.approx(np.sqrt(((scores - scores.mean()) ** 2).mean()), abs=2e-4)
        assert f"{row.mean:.{digits}f} ± {row.std:.{digits}f}" in page


@pytest.mark.parametrize("name", RANKED)
def test_ranks_and_tests(name):
    methods, means = common(name)
    sets, count = means.shape
    ranks = np.array([ranks_of(line) for line in means])
    published = pd.read_csv(RESULTS / name / "ranks.csv").set_index("method")
    assert sorted(published.index) == methods
    assert published["rank"][methods].tolist() == pytest.approx(ranks.mean(0).tolist())
    assert published["mean"][methods].tolist() == pytest.approx(means.mean(0).tolist(), abs=1e-3)
    # Friedman's statistic, corrected for ties.
    chi = (count - 1) * ((ranks.sum(0) - sets * (count + 1) / 2) ** 2).sum()
    chi /= ((ranks - (count + 1) / 2) ** 2).sum()
    page = page_of(name)
    told = re.search(r"Over the (\d+) data sets .*χ² = ([\d.]+), p = ([\d.e-]+)\. ", page)
    assert told is not None and int(told[1]) == sets
    assert float(told[2]) == pytest.approx(chi, abs=6e-4)
    assert float(told[3]) == pytest.approx(gammaincc((count - 1) / 2, chi / 2), rel=0.006)
    # Wilcoxon's tests against the first; Holm: times the number of tests left, never falling.
    first, *others = published.index
    at = methods.index
    p = {k: signed_rank_p(np.round(means[:, at(first)] - means[:, at(k)], 3)) for k in others}
    worst = 0.0
    for left, method in zip(range(len(p), 0, -1), sorted(p, key=p.__getitem__), strict=True):
        worst = max(worst, min(1, left * p[method]))
        assert published.loc[method, "p"] == pytest.approx(p[method], rel=1e-6)
        assert published.loc[method, "holm"] == pytest.approx(worst, rel=1e-6)
    shown = {row[0]: row[1:] for row in table_of(page, "Average ranks")[1:]}
    for method, row in published.iterrows():
        assert float(shown[method][0]) == pytest.approx(row["rank"], rel=1e-3)
        if method != first:
            assert float(shown[method][4]) == pytest.approx(row["holm"], rel=1e-3)


@pytest.mark.parametrize("name", PAIRED)
def test_learned_against_fixed_scales(name):
    """Corrected resampled t-tests, and Wilcoxon's test over data sets."""
    cells, lines = cells_of(name), table_of(page_of(name), "Learned against fixed scales")[1:]
    by_data: dict[str, list[float]] = {}
    for label, *told in lines:
        data, _, variant = label.partition(", ")
        if (data, variant, "legs-fcn") not in cells:
            each = np.array([np.mean(values) for values in by_data.values()])
            assert (label, len(each) > 2) == (f"{len(by_data)} data sets", True)
            expected = (each.mean(), each.std(ddof=1) / len(each) ** 0.5)
            p = signed_rank_p(np.round(each, 5))
        else:
            learned, fixed = (cells[data, variant, f"legs-{k}"] for k in ("fcn", "fixed"))
            gaps = np.subtract(learned["scores"], fixed["scores"])
            by_data.setdefault(data, []).append(gaps.mean())
            variance, count = gaps.var(ddof=1), len(gaps)
            expected = (gaps.mean(), (variance / count) ** 0.5)
            t = gaps.mean() / (variance * (1 / count + learned["test_fraction"])) ** 0.5
            p = 2 * stdtr(count - 1, -abs(t))
        assert [float(value) for value in told] == pytest.approx([*expected, p], rel=2e-3)
