"""The page of a run of ``legs train``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from legs.report.blocks import Block, Code, Missing, Page, Section, Table, Words
from legs.report.cards import card_blocks, part_blocks
from legs.report.folders import Run
from legs.report.map_charts import map_block, run_lines
from legs.report.scale_charts import OLD, scale_blocks
from legs.report.score_charts import curve_blocks, prediction_blocks
from legs.report.train_words import facts, is_classes, names_of, noun, summary, title
from legs.report.words import (
    listed,
    method_name,
    moment,
    number,
    percent,
    score_name,
    setting_words,
)


class Printed(NamedTuple):
    """A number of the paper, in its units; ``std`` is ``None`` where it prints none."""

    mean: float
    std: float | None


# What scores are, by whether classes are predicted.
GLOSSARY = {
    True: "Accuracy is the share of right answers; balanced accuracy counts every class the same, "
    "however rare; log loss is small where right answers are given with confidence.",
    False: "R² is the share of the differences that is explained. The mean squared error (MSE) is "
    "in units in which the training targets vary by 1.",
}
# The paper's number for a data set and method; None if it has none.
Paper = Callable[[str, str], Any]


def train_page(run: Run, paper: Paper = lambda data, method: None) -> Page:
    """What there is to see of a trained model.

    Args:
        run: of ``legs train``.
        paper: looks up the paper's number for a data set and method.
    """
    return Page(title(run), summary(run), facts(run), sections(run, paper))


def sections(run: Run, paper: Paper = lambda data, method: None) -> list[Section]:
    """The parts of the page, also for pages that show several runs."""
    classes, names = is_classes(run), names_of(run)
    scales, thing = scale_blocks(run), noun(run)
    found = [
        Section("scores", "Scores", score_blocks(run, paper)),
        Section("predictions", "Predictions and truth", prediction_blocks(run, names, classes)),
        Section("scales", "Learned scales and filters", scales) if scales else None,
        Section("map", f"Map of the {thing}s", map_blocks(run)),
        Section("drawn", "Best and worst predictions", card_blocks(run, names, classes)),
        Section("parts", f"Which part of the {thing} mattered", part_blocks(run, classes)),
        Section("training", "Training", curve_blocks(run)),
        Section("reproduce", "How to get this again", reproduce_blocks(run)),
    ]
    return [section for section in found if section is not None]


def score_blocks(run: Run, paper: Paper) -> list[Block]:
    """Scores by part, and the paper's where it has one."""
    results = run.results
    scores, split = results["scores"], results.get("split", {})
    parts = [part for part in ("test", "guess", "validation", "train") if part in scores]
    heads = {"guess": "guess", "train": "training"}
    columns = ["", *(_head(heads.get(part, part), split.get(part)) for part in parts)]
    rows = [
        [score_name(name), *(number(scores[part].get(name)) for part in parts)]
        for name in scores[parts[0]]
        if ":" not in name
    ]
    blocks: list[Block] = [
        Words(
            f"Test {noun(run)}s had no part in training or in choosing when to stop; only they "
            f'tell what to expect of new ones. "guess" is what an answer that ignores the '
            f"{noun(run)} would get on them. {GLOSSARY[is_classes(run)]}"
        ),
        Table(columns, rows, strong=(0,)),
    ]
    told = paper_words(run, paper)
    if told:
        blocks.append(Words(told))
    if not is_classes(run) and "test" in scores:
        blocks.append(target_table(names_of(run), scores["test"], scores.get("guess", {})))
    return blocks


def target_table(names: list[str], test: dict[str, Any], guess: dict[str, Any]) -> Table:
    """Errors of every number, in its own units."""
    rows = []
    for name in names:
        error, base = test.get(f"rmse:{name}"), guess.get(f"rmse:{name}")
        smaller = percent(1 - error / base, 0) if error is not None and base else ""
        cells = [number(test.get(f"mae:{name}")), number(error), number(base), smaller]
        rows.append([name, *cells])
    columns = ["in its own units", "mean error", "RMSE", "RMSE of a guess", "smaller by"]
    return Table(columns, rows, "Errors on the test graphs")


def paper_words(run: Run, paper: Paper) -> str:
    """The paper's number beside ours, in a sentence; empty if it has none."""
    results = run.results
    name, model = str(results["data"]["name"]), str(results["settings"]["model"])
    printed = paper(name, model)
    test = results["scores"].get("test")
    if printed is None or test is None:
        return ""
    spread = "" if printed.std is None else f" ± {printed.std:g}"
    if is_classes(run):
        return (
            f"The paper reports {printed.mean:g}{spread} % for {method_name(model)} on {name}: the "
            "mean over ten test sets, each answered by nine models together. This run is one model "
            f"on one test set ({percent(test['accuracy'])}); legs cv {name} follows the paper's "
            "protocol."
        )
    return (
        f"The paper reports a mean squared error of {printed.mean:g}{spread} for "
        f"{method_name(model)} on {name}; here it is {number(test['whitened_mse'])}, for one split."
    )


def map_blocks(run: Run) -> list[Block]:
    """The map of a run's graphs."""
    shown = run.shown
    if shown is None:
        return [Missing(OLD.format("graphs to show"))]
    classes, names = is_classes(run), names_of(run)
    colors: dict[str, Any] = {}
    if classes:
        colors["class"] = shown.table["truth"].astype(str).tolist()
        right = shown.table["truth"].astype(str) == shown.table["prediction"].astype(str)
        colors["right or wrong"] = ["right" if ok else "wrong" for ok in right]
    else:
        for name in names:
            if f"truth:{name}" in shown.table:
                colors[name] = shown.table[f"truth:{name}"].tolist()
    lines = run_lines(shown, names, classes)
    share = 100 * float(shown.share[:2].sum())
    shade = "" if classes or len(colors) != 1 else f"Its colour is the true {names[0]}. "
    return [
        Words(
            f"Every dot is a {noun(run)}; they are near each other where the model finds them "
            f"alike. Point at a dot, or tap it, to see the {noun(run)}. {shade}Hollow dots were "
            "trained on. t-SNE keeps neighbours together, and its long distances mean nothing; the "
            f"PCA map keeps distances, but only {share:.0f} % of the variation."
        ),
        map_block(shown, colors, lines),
    ]


def reproduce_blocks(run: Run) -> list[Block]:
    """Command, seeds, versions."""
    results = run.results
    settings = results["settings"]
    blocks: list[Block] = []
    if results.get("command"):
        blocks.append(Code(str(results["command"])))
    else:
        blocks.append(
            Words("The run was started from Python, or by a version that did not note the command.")
        )
    training = settings.get("training", {})
    rows = [
        ["seed", str(training.get("seed", ""))],
        ["data", f"{results['data']['name']} (fingerprint {settings.get('data', '')})"],
        ["split", f"fingerprint {settings.get('split', '')}; the graphs are in split.json"],
        ["node features", listed([str(n) for n in results["data"].get("features", [])], 8)],
        ["training", setting_words(training)],
        ["model options", ", ".join(f"{k}={v}" for k, v in settings["model_options"].items())],
        ["versions", ", ".join(f"{k} {v}" for k, v in results.get("versions", {}).items())],
        ["machine", str(results.get("machine", ""))],
        ["date", moment(str(results.get("date", "")))],
        ["folder", str(run.folder)],
    ]
    known = [row for row in rows if row[1]]
    return [*blocks, Table(["", ""], known, words=2)]


def _head(name: str, count: int | None) -> str:
    return f"{name} ({count:,})" if count else name
