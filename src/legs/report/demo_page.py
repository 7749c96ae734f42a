"""The page of ``legs demo``: several models side by side, and one of them in detail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legs.report.blocks import Block, Code, Fact, Page, Plot, Section, Spec, Table, Words, numbers
from legs.report.folders import Run, read_json, read_train, runs_in
from legs.report.train_page import sections
from legs.report.train_words import names_of
from legs.report.words import (
    about_method,
    duration,
    listed,
    method_name,
    moment,
    number,
    percent,
    things,
)

FIRST = "legs-fcn"


@dataclass(frozen=True)
class Demo:
    """What a folder of ``legs demo`` holds."""

    folder: Path
    runs: list[Run]
    known: dict[str, Any]


def read_demo(folder: Path) -> Demo:
    """Reads the runs in a folder, LEGS first."""
    runs = [read_train(path) for path in runs_in(folder)]
    order = ("legs-fcn", "legs-fixed", "gcn", "baseline")
    runs.sort(key=lambda run: order.index(model_of(run)) if model_of(run) in order else 9)
    return Demo(folder, runs, read_json(folder / "demo.json"))


def model_of(run: Run) -> str:
    """The method of a run."""
    return str(run.results["settings"]["model"])


def detailed(demo: Demo) -> Run:
    """The run that is shown in detail."""
    return next((run for run in demo.runs if model_of(run) == FIRST), demo.runs[0])


def demo_page(demo: Demo) -> Page:
    """What there is to see of a demonstration."""
    run = detailed(demo)
    data, split = run.results["data"], run.results.get("split", {})
    names = names_of(run)
    ranked = sorted(demo.runs, key=_error)
    lead = [
        f"{len(demo.runs)} models learned to predict {len(names)} properties of molecules "
        f"({listed(names)}) from the atoms and bonds of "
        f"{things(True, split.get('train', data['graphs']))}.",
        f"On {things(True, split.get('test', 0))} that none of them had seen, "
        f"{method_name(model_of(ranked[0]))} did best: it explains "
        f"{percent(max(_score(ranked[0], 'r2'), 0), 0)} of the differences between them (R²; 0 % "
        "is no better than always answering the mean, 100 % is perfect). "
        f"In order: {listed([method_name(model_of(one)) for one in ranked])}.",
        f"Below is {method_name(model_of(run))} in detail: it {about_method(model_of(run), True)}",
    ]
    facts = [
        Fact(f"{data['graphs']:,}", "molecules"),
        Fact(f"{len(names)}", "properties of each"),
        Fact(
            percent(max(_score(run, "r2"), 0), 0),
            f"of the differences explained by {method_name(model_of(run))}",
        ),
        Fact(duration(sum(float(one.results["seconds"]) for one in demo.runs)), "for all models"),
    ]
    rest = [section for section in sections(run) if section.anchor not in ("reproduce",)]
    return Page(
        "Demonstration: properties of molecules",
        lead,
        facts,
        [
            Section("models", "Models side by side", _models(demo)),
            *rest,
            Section("reproduce", "How to get this again", _again(demo, run)),
        ],
    )


def _models(demo: Demo) -> list[Block]:
    guess = demo.runs[0].results["scores"].get("guess", {})
    rows = [["mean of the training set", *_cells(guess), "0", ""]]
    for run in demo.runs:
        results = run.results
        row = [method_name(model_of(run)), *_cells(results["scores"].get("test", {}))]
        rows.append([*row, f"{results['parameters']:,}", f"{results['seconds']:.0f} s"])
    spec: Spec = {
        "data": [
            {
                "x": [max(run.results["parameters"], 1)],
                "y": numbers([_score(run, "r2")]),
                "name": method_name(model_of(run)),
                "mode": "markers",
                "marker": {"size": 14, "color": f"@{k}", "symbol": k},
                "hovertemplate": "%{fullData.name}: R² %{y}, %{x} parameters<extra></extra>",
            }
            for k, run in enumerate(demo.runs)
        ],
        "layout": {
            "xaxis": {"title": "parameters", "type": "log", "dtick": "D2"},
            "yaxis": {"title": "R² on unseen molecules"},
        },
    }
    alt = "Explained variation on unseen molecules against the number of parameters, by model."
    columns = ["model", "R²", "MSE, variance 1", "parameters", "time"]
    return [
        Words("Scores on the test molecules, the mean over all properties."),
        Table(columns, rows, strong=(1,)),
        Plot("models", spec, alt, 320),
    ]


def _again(demo: Demo, run: Run) -> list[Block]:
    results = run.results
    rows = [
        ["seed", str(results["settings"]["training"].get("seed", ""))],
        ["versions", ", ".join(f"{k} {v}" for k, v in results.get("versions", {}).items())],
        ["machine", str(results.get("machine", ""))],
        ["date", moment(str(results.get("date", "")))],
        ["other models", f"legs report {demo.folder}/MODEL makes the same page of any of them"],
        ["folder", str(demo.folder)],
    ]
    command = str(demo.known.get("command") or "legs demo")
    return [Code(command), Table(["", ""], [row for row in rows if row[1]], words=2)]


def _cells(scores: dict[str, Any]) -> list[str]:
    return [number(scores.get("r2")), number(scores.get("whitened_mse"))]


def _score(run: Run, name: str) -> float:
    value = run.results["scores"].get("test", {}).get(name)
    return float("nan") if value is None else float(value)


def _error(run: Run) -> float:
    return _score(run, "whitened_mse")
