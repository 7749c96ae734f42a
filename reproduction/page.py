"""Tables and figures of an experiment as files: Markdown for people, CSV for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from legs.io import write_atomically
from legs.report import filter_bank
from legs.report.theme import NoPictures
from legs.training.cv.protocol import setting_name
from legs.training.cv.results import markdown
from reproduction import exchange, figures, ranks, scales, tables
from reproduction.baselines import BASELINES
from reproduction.cell import Row
from reproduction.plan import ERRORS, Cell, Request, document, listed

IMPORTANCE = (
    "Permutation importance: on the test graphs, the features of one scattering path (all channels "
    "and moments together) are permuted between graphs, 5 times; the number is the rise of the "
    "mean squared error of standardized targets, mean ± standard deviation over test sets. Paths "
    "are correlated, so the numbers do not add up. ψ₀ is the finest wavelet; ψ₁ψ₃ is ψ₃ |ψ₁ x|; "
    "x are the node features themselves."
)
SCALES = (
    "E t = Σ t F is the mean diffusion time of a scale (F: the learned selection matrix, one row "
    "per scale), mean ± standard deviation over models; nearest whole scales: the most frequent "
    "among models and its share; steps from dyadic: the mean of |E t − t| for t = 1, 2, 4, …"
)
TESTS = (
    "Corrected resampled t-test (Nadeau and Bengio 2003) on the same test sets; differences are "
    "LEGS minus the other{unit}. With so many pairs some are below 0.05 by chance. Every pair on "
    "every data set is in `comparisons.csv`."
)
RANKS = (
    "Over the {sets} data sets that all methods have ({names}): Friedman's χ² = "
    "{test.statistic:.3f}, p = {test.pvalue:.3g}. p: Wilcoxon's signed-rank test against the first "
    "(with {sets} sets never below {least:.2g}), as it is and by Holm's correction. In the figure, "
    "bars are as long as Nemenyi's critical difference at 5 %, {apart:.3f}."
)
LEARNED = (
    "LEGS-FCN minus LEGS-FIXED (errors: below zero it is better), mean over test sets, standard "
    "error, p of the corrected resampled t-test; last row: over data sets, p of Wilcoxon's test."
)


@dataclass
class Report:
    """Results of an experiment."""

    spec: Mapping[str, Any]
    request: Request
    rows: list[Row]  # finished cells, in the order of the page
    table: pd.DataFrame = field(default_factory=pd.DataFrame)  # for the screen
    sections: list[str] = field(default_factory=list)  # of the page, each Markdown
    notes: list[str] = field(default_factory=list)  # for page and screen
    csv: dict[str, pd.DataFrame] = field(default_factory=dict)  # by file name
    files: list[Path] = field(default_factory=list)  # that were written

    @property
    def is_error(self) -> bool:
        """Whether scores are errors."""
        return self.spec["score"] in ERRORS

    @property
    def title(self) -> str:
        """With what distinguishes the run from the paper's protocol."""
        request = self.request
        text = self.spec["title"] + " (quick)" * request.quick
        text += f", seed {request.seed}" * bool(request.seed)
        return text + f", models per test set: {request.rotations}" * bool(request.rotations)

    def add(self, title: str, table: pd.DataFrame, words: str = "", level: int = 2) -> None:
        text = f"{'#' * level} {title}\n\n{markdown(table)}\n\n{words}"
        self.sections.append(text.rstrip())

    def draw(self, name: str, alt: str, drawing: Callable[..., list[Path]], *args: Any) -> None:
        try:
            self.files += drawing(self.request.folder / name, *args)
            self.sections.append(f"![{alt}]({name}.svg)")
        except NoPictures as error:
            self.notes.append(f"No figure {name}: {error}.")

    def grouped(self, needed: str, without: Sequence[str] = ()) -> dict[str, list[Row]]:
        """Rows that have what is needed, by data set and variant."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            if needed in row and row["method"] not in without:
                label = ", ".join(filter(None, [row["data"], row["variant"]]))
                groups.setdefault(label, []).append(row)
        return groups


def write_page(
    spec: Mapping[str, Any],
    request: Request,
    cells: Sequence[Cell],
    rows: Mapping[str, Row],
    left_out: Mapping[str, str],
) -> Report:
    """Writes ``results.md``, tables and figures of what is finished."""
    planned = {c.key: c for c in (*(() if request.partial else listed(spec, request)), *cells)}
    for row in rows.values():  # of earlier commands
        earlier = Cell(row["data"], row["method"], spec["score"], variant=row["variant"])
        planned.setdefault(row["cell"], earlier)
    data, variants, methods = (
        list(dict.fromkeys([*first, *(getattr(cell, name) for cell in planned.values())]))
        for name, first in (("data", spec["datasets"]), ("variant", ()), ("method", ()))
    )
    order = sorted(planned.values(), key=lambda cell: methods.index(cell.method))
    order.sort(key=lambda cell: (data.index(cell.data), variants.index(cell.variant)))
    report = Report(spec, request, [rows[cell.key] for cell in order if cell.key in rows])
    if request.rotations:
        report.sections.append('**Not the paper\'s protocol:** see the column "protocol".')
    report.sections.append(spec["text"])
    special = {"dataset-stats": _statistics, "tuning": _tuning}
    special |= {"scales": _scales_page, "enzymes": _enzymes}
    report.sections += [document()["quick_text"]] if request.quick else []
    if spec["name"] in special:
        report.sections += [spec["tuning"]] if "tuning" in spec and not request.quick else []
        special[spec["name"]](report)
    else:
        _scores(report, order, rows)
    if missing := len(order) - len(report.rows):
        report.notes.append(f"{missing} of {len(order)} cells were not run.")
    report.notes += [f"Not run: {why}." for why in dict.fromkeys(left_out.values())]
    lists = (origin(report.rows), report.notes)
    facts, notes = ("\n".join(f"- {line}" for line in lines) for lines in lists)
    page = "\n\n".join([f"# {report.title}", facts, *report.sections, notes]).rstrip()
    folder = request.folder
    write_atomically(folder / "results.md", f"{page}\n".encode())
    for name, table in report.csv.items():
        write_atomically(folder / name, table.to_csv(index=False).encode())
    report.files[:0] = [folder / name for name in ("results.md", *report.csv)]
    return report


def origin(rows: Sequence[Row]) -> list[str]:
    """Where results come from, one line per fact."""
    seconds: dict[str, float] = {}
    for row in rows:  # a cell counts for its part of a shared device
        device, _, parts = row["device"].partition(", shared by ")
        seconds[device] = seconds.get(device, 0.0) + row["seconds"] / int(parts or 1)
    facts = {
        "Device": [row["device"] for row in rows],
        "Machine": [row["machine"] for row in rows],
        "Versions": [", ".join(f"{k} {v}" for k, v in row["versions"].items()) for row in rows],
        "Dates": sorted(row["date"][:10] for row in rows),
        "Commit": [row["commit"] for row in rows],
        "Command": [f"`{row['command']}`" for row in rows if row["command"]],
        "Seed": sorted(str(row["seed"]) for row in rows),
        "Time of all cells": [f"{timedelta(seconds=round(t))} on {k}" for k, t in seconds.items()],
    }
    joined = ((name, "; ".join(filter(None, dict.fromkeys(k)))) for name, k in facts.items())
    return [f"{name}: {text}" for name, text in joined if text]


def _scores(report: Report, order: Sequence[Cell], rows: Mapping[str, Row]) -> None:
    """A table of accuracies or errors."""
    spec, is_error = report.spec, report.is_error
    table = tables.compared(spec, order, rows)
    report.csv["results.csv"] = table
    page = tables.shown(table, spec, is_error)
    report.table = page[table["status"] == "run"].filter([*tables.KEYS, "paper", "ours"])
    if not report.request.quick:
        report.sections.append(spec["tuning"].format(**vars(order[0].options.training)))
    if is_error:  # what every method chooses from
        tried = [(cell.method, cell.options.grid) for cell in order if any(cell.options.grid)]
        grids = {method: "; ".join(map(setting_name, grid)) for method, grid in tried}
        report.add("Grid", pd.DataFrame(grids.items(), columns=["method", "settings"]))
    what = spec.get("errors", "Accuracy in percent")
    star = "\\* Not comparable: " + spec.get("not_comparable", "for another data set") + "."
    title = f"{what}, mean ± standard deviation over test sets"
    title += "; in brackets the paper's" * ("paper_mean" in table)
    report.add(title, tables.overview(table, spec, is_error), star * ("paper_note" in table))
    if len(tally := tables.tally(table, is_error)):
        report.add("Compared with the paper, by method", tally)
    if is_error and report.rows:
        words = "p: corrected resampled t-test (Nadeau and Bengio 2003) against the first."
        ranked = tables.ranking(report.rows, spec["digits"])
        report.add("Ranking, the smallest error first", ranked, words)
    if report.rows and not is_error:
        _ranks(report, table)
    pairs = tables.paired([row for row in report.rows if not row["settings"]["shuffled"]])
    if len(pairs):
        unit = ", in percent of the other's: below zero LEGS is better" if is_error else ""
        words = TESTS.format(unit=unit)
        report.add("LEGS against every other method", tables.summary(pairs, is_error), words)
        report.csv["comparisons.csv"] = pairs
        if len(learned := ranks.learned_against_fixed(pairs)):
            report.add("Learned against fixed scales", learned, LEARNED)
    more = {"qm9": _qm9, "zinc": _zinc, "structures": _structures}
    if spec["name"] in more and report.rows:
        more[spec["name"]](report)
    if is_error:
        learned = report.grouped("scales").items()
        if facts := [scales.facts(label, [row]) for label, group in learned for row in group]:
            _scales_table(report, facts, "MSE", spec["digits"], SCALES)
        _importance(report)
    groups = report.grouped("parameters", without=BASELINES)
    if groups and spec.get("sizes", True):
        report.sections.append("## Scores against number of parameters")
        score = spec.get("errors", "accuracy, %")
        report.draw("parameters", "scores by parameters", figures.draw_parameters, groups, score)
    report.add("Every cell", page)


def _ranks(report: Report, table: pd.DataFrame) -> None:
    """Average ranks over data sets."""
    means = ranks.common_means(table)
    if min(means.shape) < 3:
        return
    found = report.csv["ranks.csv"] = ranks.ranked(means)
    test = stats.friedmanchisquare(*means.T.to_numpy())
    apart = ranks.critical_difference(*means.T.shape)
    names, least = ", ".join(means.index), 0.5 ** (len(means) - 1)
    words = RANKS.format(sets=len(means), names=names, test=test, apart=apart, least=least)
    heads = {"rank": "average rank", "behind": "behind the first", "holm": "Holm's p"}
    report.add("Average ranks", found.rename(columns=heads).astype(object).fillna(""), words)
    report.draw("ranks", "average ranks", figures.draw_ranks, found, apart)


def _scales_table(
    report: Report, facts: list[dict[str, Any]], score: str, digits: int, words: str = ""
) -> pd.DataFrame:
    size = np.shape(facts[0]["weights"])
    table = scales.shown([scales.untrained(*size), *facts], score, digits)
    report.add("Learned scales", table, words)
    report.sections.append("Frequency responses, learned (mean F) and dyadic (dashed):")
    fixed = filter_bank(scales.dyadic_weights(*size))
    banks = {f"{f['data']}, {f['method']}": filter_bank(np.array(f["weights"])) for f in facts}
    report.draw("responses", "frequency responses", figures.draw_responses, banks, fixed)
    return table


def _scales_page(report: Report) -> None:
    """Learned scales over seeds."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in report.rows:
        if "scales" in row:
            groups.setdefault((row["data"], row["method"]), []).append(row)
    facts = [scales.facts(data, rows) for (data, _), rows in groups.items()]
    if facts:
        table = _scales_table(report, facts, "accuracy", 2)
        report.table = table[["data", "method", "expected scales", "steps from dyadic"]]
        size = np.shape(facts[0]["weights"])
        report.csv["results.csv"] = pd.DataFrame([scales.untrained(*size), *facts])
    cells = [Cell(row["data"], row["method"], variant=row["variant"]) for row in report.rows]
    table = tables.compared(report.spec, cells, {row["cell"]: row for row in report.rows})
    report.add("Every cell", tables.shown(table, report.spec, is_error=False))


def _importance(report: Report) -> None:
    """Which scattering paths matter."""
    groups = report.grouped("importance")
    if groups:
        report.sections.append(f"## Which paths matter\n\n{IMPORTANCE}")
    for label, group in groups.items():
        columns = {"path": group[0]["importance"]["paths"]}
        for row in group:
            rise = np.asarray(row["importance"]["rise"])
            both = zip(rise.mean(0), rise.std(0), strict=True)
            columns[row["method"]] = [tables.with_deviation(a, b, 3) for a, b in both]
        report.add(label, pd.DataFrame(columns), level=3)


def _qm9(report: Report) -> None:
    """By seed, by target, and without the rotational constants."""
    rows, apart = report.rows, ("A", "B", "C")
    seeds = [f"seed {seed}" for seed in rows[0]["settings"]["options"]["seeds"]]
    scores = [[row["method"], *(f"{score:.3f}" for score in row["scores"])] for row in rows]
    by_seed = pd.DataFrame(scores, columns=["method", *seeds])
    report.add("By seed: MSE of standardized targets, mean of all 19", by_seed)
    others = [k for k, name in enumerate(rows[0]["targets"]) if name not in apart]
    reduced = []
    for row in rows:
        scores = np.asarray(row["by_target"])[:, others].mean(1)
        reduced.append(
            {**row, "scores": scores.tolist(), "mean": scores.mean(), "std": scores.std()}
        )
    paper = tables.paper_table("qm9-targets")
    means = paper[~paper["target"].isin(apart)].groupby("method")["mean"].mean()
    ranking = tables.ranking(reduced, 3)
    text = [f"{means[name]:.3f}" if name in means else "" for name in ranking["method"]]
    ranking.insert(4, "paper's", text)
    report.add("Without the rotational constants: mean of 16 targets", ranking)
    total = tables.paper_table("qm9").query("data == 'qm9'").assign(target="mean")
    both = pd.concat([paper, total]).set_index(["target", "method"])["mean"]
    table = tables.by_target(rows, both.to_dict())
    report.add("By target: MSE of standardized targets; in brackets the paper's", table)


def _zinc(report: Report) -> None:
    """By property, one table per tranche."""
    for data, group in report.grouped("by_target").items():
        title = f"By property: {data}, MSE of standardized targets"
        report.add(title, tables.by_target(group))


def _structures(report: Report) -> None:
    """Errors by target, and the paper's figure of improvement."""
    ours, other = "legs-fcn", "gcn"
    columns = [*tables.KEYS, "target", "mean_gdt_ts", "tested", "mse"]
    errors = [
        (*(row[k] for k in tables.KEYS), name, one["mean"], one["tested"], one["squares"])
        for row in report.rows
        for name, one in row["groups"].items()
        if one["tested"]
    ]
    targets = pd.DataFrame(errors, columns=columns)
    targets["mse"] /= targets["tested"]
    report.csv["targets.csv"] = targets
    panels: dict[str, list[figures.Point]] = {}
    lines = []
    for label, group in report.grouped("groups").items():
        rows = {row["method"]: row for row in group}
        if not {ours, other} <= set(rows) or rows[ours]["splits"] != rows[other]["splits"]:
            continue
        index = ["data", "variant", "target", "mean_gdt_ts"]
        own = targets[tables.label_of(targets) == label]
        wide = own.pivot(index=index, columns="method", values="mse")
        gain = (100 * (1 - wide[ours] / wide[other])).reset_index(name="gain")
        gain = gain.sort_values("mean_gdt_ts", kind="stable")
        panels[label] = list(gain[["target", "mean_gdt_ts", "gain"]].itertuples(index=False))
        correlation = gain["mean_gdt_ts"].corr(gain["gain"], method="spearman")
        lines.append(
            {
                "data": label,
                "targets": len(gain),
                f"{ours} better": int((gain["gain"] > 0).sum()),
                "median improvement, %": f"{gain['gain'].median():+.1f}",
                "correlation with mean GDT_TS": f"{correlation:+.2f}",
            }
        )
    if lines:
        words = "Errors by target are in `targets.csv`."
        report.add(f"{ours} against {other}, target by target", pd.DataFrame(lines), words)
        alt = f"improvement over {other}"
        report.draw("improvement", alt, figures.draw_improvement, panels, (ours, other))


def _statistics(report: Report) -> None:
    """Statistics of the data sets."""
    numbers, page, notes = tables.statistics_tables(report.rows)
    report.csv["results.csv"], report.table = numbers, page
    report.add("Ours, in brackets the paper's", page)
    report.notes += notes


def choices(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """The learning rate of every method with results on all tuned data sets of a kind."""
    chosen: dict[str, dict[str, float]] = {}
    for kind, names in document()["groups"].items():
        sets = [n for n in document()["experiments"]["tuning"]["datasets"] if n in names]
        for method in dict.fromkeys(row["method"] for row in rows):
            own = {row["data"]: row for row in rows if row["method"] == method}
            if set(sets) <= set(own):
                logs = [np.log(own[name]["losses"]).mean(1) for name in sets]
                best = int(np.argmin(np.mean(logs, axis=0)))
                chosen.setdefault(kind, {})[method] = own[sets[0]]["rates"][best]
    return chosen


def _tuning(report: Report) -> None:
    """Validation losses, and the rates they choose."""
    chosen = choices(report.rows)
    losses = [
        {"data": row["data"], "method": row["method"]}
        | {
            f"loss at {rate:g}": f"{np.mean(values):.4f}"
            for rate, values in zip(row["rates"], row["losses"], strict=True)
        }
        | {"seconds": f"{row['seconds']:.0f}"}
        for row in report.rows
    ]
    report.csv["results.csv"] = pd.DataFrame(losses)
    rates = pd.DataFrame(chosen, index=list(dict.fromkeys(row["method"] for row in report.rows)))
    text = rates.map(lambda rate: "" if pd.isna(rate) else f"{rate:g}")
    report.table = text.rename_axis("method").reset_index()
    report.add("Chosen", report.table)
    report.add("Mean validation losses", report.csv["results.csv"])


def _enzymes(report: Report) -> None:
    """Distances of exchange preferences to the references, and chord diagrams."""
    references = exchange.reference_matrices()
    paper = tables.paper_table("enzymes").set_index("method")["mean"]
    lines: list[dict[str, str]] = []
    for row in report.rows:
        for scaling, words in (("raw", "as they are"), ("standardised", "standardized")):
            matrices = exchange.network_preferences(row, scaling)
            nearer = np.mean([one["astray"] for one in row["exchange"][scaling]])
            line = {
                "method": row["method"],
                "features": words,
                "accuracy": tables.with_deviation(row["mean"], row["std"], 2),
                "majority class": f"{np.mean(row['guess']):.2f}",
                "nearer to another": f"{nearer:.2f}",
                "paper": f"{paper[row['method']]:.3f}" if row["method"] in paper else "",
            }
            for name, reference in references.items():
                each = np.array([exchange.cosine_distance(one, reference) for one in matrices])
                each = each[np.isfinite(each)]  # undefined where no enzyme is nearer to another
                line[name] = tables.with_deviation(each.mean(), each.std(), 3) if len(each) else "–"
            line |= {"networks": str(len(matrices)), "parameters": f"{row['parameters']:,}"}
            lines.append(line | {"protocol": row["protocol"], "seconds": f"{row['seconds']:.0f}"})
    ones = np.ones((6, 6))
    uniform = {k: f"{exchange.cosine_distance(ones, v):.3f}" for k, v in references.items()}
    table = pd.DataFrame([*lines, {"method": "uniform", **uniform}]).fillna("")
    report.csv["results.csv"] = table
    narrow = ["method", "features", "accuracy", "paper", *references]
    report.table = table.reindex(columns=narrow, fill_value="")
    report.add("Cosine distances; the paper's are to Cuesta et al. 2015", table)
    matrices = dict(references)
    for row in report.rows:
        matrices[row["method"]] = exchange.network_preferences(row, "raw").mean(0)
    for name, matrix in matrices.items():
        if np.isfinite(matrix).all() and matrix.any():
            report.sections.append(f"## Preferences: {name}")
            file, names = name.replace(" ", "-").replace(".", "").lower(), exchange.CLASSES
            report.draw(f"chords-{file}", "exchanges", figures.draw_chords, matrix, names)
