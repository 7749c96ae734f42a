"""The page of ``legs reproduce``: an experiment's numbers beside the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from legs.report.blocks import Block, Code, Fact, Page, Section, Table
from legs.report.folders import RESULTS, read_json, read_table
from legs.report.reproduce_blocks import (
    beside_blocks,
    number_blocks,
    picture_blocks,
    scales_blocks,
    size_blocks,
)
from legs.report.words import duration


@dataclass(frozen=True)
class Experiment:
    """What a folder of ``legs reproduce`` holds."""

    folder: Path
    results: dict[str, Any]
    table: pd.DataFrame | None
    pictures: list[Path]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Finished cells."""
        return list(self.results.get("rows", ()))

    @property
    def compared(self) -> pd.DataFrame | None:
        """Cells with a number of ours and one of the paper's."""
        if self.table is None or not {"paper_mean", "mean"} <= set(self.table.columns):
            return None
        both = self.table.dropna(subset=["paper_mean", "mean"])
        return both if len(both) else None


def read_reproduce(folder: Path) -> Experiment:
    """Reads a folder of ``legs reproduce``."""
    table = read_table(folder / "results.csv", ("data", "method", "variant", "status", "cell"))
    return Experiment(folder, read_json(folder / RESULTS), table, sorted(folder.glob("*.svg")))


def reproduce_page(run: Experiment) -> Page:
    """What there is to see of an experiment."""
    found = [
        Section("paper", "Beside the paper", beside_blocks(run)),
        Section("numbers", "Every number", number_blocks(run)),
        Section("scales", "Learned scales", scales_blocks(run)),
        Section("sizes", "Scores against parameters", size_blocks(run)),
        Section("pictures", "Figures", picture_blocks(run)),
        Section("reproduce", "How to get this again", _again(run)),
    ]
    title = str(run.results.get("title") or f"Experiment {run.results['experiment']}")
    if run.results.get("quick"):
        title += " (quick)"
    return Page(title, _summary(run), _facts(run), [part for part in found if part.blocks])


def _summary(run: Experiment) -> list[str]:
    cells = len(run.rows)
    lines = []
    if run.results.get("quick"):
        lines.append(
            "This is a quick run: few graphs, few test sets, nothing tuned. It shows that "
            "everything works and roughly where numbers lie; it is not the paper's protocol."
        )
    if cells:
        sets = len({row.get("data") for row in run.rows})
        methods = len({row.get("method") for row in run.rows})
        lines.append(
            f"{cells} of the experiment's cells have been run: {_counted(methods, 'method')} on "
            f"{_counted(sets, 'data set')}."
        )
    both = run.compared
    if both is not None:
        above = float((both["mean"] - both["paper_mean"]).median())
        lines.append(
            f"For {_counted(len(both), 'cell')} the paper has a number. Ours minus the paper's is "
            f"{above:+.3g} in the median{_within(both)}."
        )
    left = run.results.get("left_out") or {}
    if left:
        lines.append(f"{_counted(len(left), 'cell')} asked for could not be run.")
    return lines or ["The numbers of this experiment are below."]


def _within(both: pd.DataFrame) -> str:
    if "within_one" not in both:
        return ""
    told = both["within_one"].dropna()
    near = int((told == "yes").sum())
    return f"; {near} of {len(told)} are within one standard error" if len(told) else ""


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _facts(run: Experiment) -> list[Fact]:
    seconds = sum(float(row.get("seconds") or 0) for row in run.rows)
    models = sum(int(row.get("models") or 0) for row in run.rows)
    found = [Fact(f"{len(run.rows):,}", "cells run")]
    if models:
        found.append(Fact(f"{models:,}", "models trained"))
    if seconds:
        found.append(Fact(duration(seconds), "of computing"))
    return found


def _again(run: Experiment) -> list[Block]:
    results, rows = run.results, run.rows
    blocks: list[Block] = [Code(str(results["command"]))] if results.get("command") else []
    facts = [
        ["seed", str(results.get("seed", ""))],
        ["learning rates", ", ".join(map(str, results.get("learning_rates", [])))],
        ["device", _different(rows, "device")],
        ["machine", _different(rows, "machine")],
        ["commit", _different(rows, "commit")],
        ["dates", "; ".join(sorted({str(row.get("date", ""))[:10] for row in rows} - {""}))],
        ["versions", _versions(rows)],
        ["folder", str(run.folder)],
    ]
    return [*blocks, Table(["", ""], [fact for fact in facts if fact[1]], words=2)]


def _different(rows: list[dict[str, Any]], name: str) -> str:
    return "; ".join(dict.fromkeys(str(row[name]) for row in rows if row.get(name)))


def _versions(rows: list[dict[str, Any]]) -> str:
    each = (", ".join(f"{k} {v}" for k, v in row.get("versions", {}).items()) for row in rows)
    return "; ".join(dict.fromkeys(text for text in each if text))
