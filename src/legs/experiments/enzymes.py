"""Enzyme classes: which exchange with which, told from features of trained networks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from legs.data import sources
from legs.data.errors import DataError
from legs.experiments.cells import Cell, make_cell
from legs.experiments.exchange import (
    Floats,
    class_distances,
    cosine_distance,
    preferences,
    read_matrix,
)
from legs.experiments.ledger import Ledger, Row
from legs.experiments.outlook import Progress
from legs.experiments.page import CSV, Report, header_of, table_section, tuning_words, write_page
from legs.experiments.paper_tables import printed
from legs.experiments.pictures import NoPictures, draw_chords
from legs.experiments.request import Request
from legs.experiments.runner import run_cells
from legs.models import available
from legs.training import CVResult

NAME, TITLE = "enzymes", "Exchange preferences of enzyme classes (Table IX)"
METHODS = ("legs-fixed", "legs-fcn", "gcn")
CLASSES = ("EC 1", "EC 2", "EC 3", "EC 4", "EC 5", "EC 6")
GAO = "enzymes/ec_exchange_gao2019.json"
QUICK_GRAPHS = 300
# How features enter distances: as the network makes them, or each column scaled to variance one.
SCALED = {"raw": "as they are", "standardised": "standardised"}

WORDS = (
    "One network for each of ten test sets (the others train it, one of them validates); graph "
    "features of all enzymes from each; distance of an enzyme to a class: to the affine PCA "
    "subspace that holds 90 % of the class's variance; D: its mean over a class; w: the share of a "
    "class that is nearer to another; pref(i, j) = w_j / min(D_ij/D_ii, D_ji/D_jj), as Gao et al. "
    "2019 have it (the LEGS paper prints both ratios upside down, and w_i). Distances between "
    "matrices: one minus their cosine, diagonals left out; mean ± deviation over the networks. "
    'LEGS-FIXED has the same features whatever it is trained on. "all the same" is a guess: every '
    "class exchanges with every other alike."
)


def plan(request: Request) -> list[Cell]:
    """The cells that a request asks for."""
    request.sets(("ENZYMES",), ("ENZYMES",))  # an error for any other
    names = request.methods(METHODS)
    for name in names:
        if name not in available():
            raise ValueError(f"enzymes needs networks with graph features; {name} is none")
    more: dict[str, Any] = {"limit": QUICK_GRAPHS} if request.quick else {}
    asked = replace(request, rotations=request.rotations or 1)
    return [make_cell(asked, "ENZYMES", name, embedded=True, **more) for name in names]


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs what is missing, and writes tables and chord diagrams.

    Args:
        request: what was asked for.
        progress: called now and then.
    """
    references = reference_matrices(request.observed)  # a wrong file is told before hours of work
    ledger = Ledger(request.folder, NAME, request.reuse, needed=("mean", "exchange"))
    header = header_of(request, TITLE)
    run_cells(request, plan(request), ledger, header, progress, more=exchange_facts)
    return write(request, ledger, references)


def reference_matrices(observed: Path | None) -> dict[str, Floats]:
    """Matrices to compare with: the user's, and Gao et al.'s where the data folder has it."""
    found = {}
    if observed is not None:
        found["observed"] = read_matrix(observed, CLASSES)
    file = sources.find(GAO)
    if file is not None:
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
            table, astray = np.array(known["D_mean_distance"]), np.array(known["w"])
            found["Gao et al. 2019"] = preferences(table, astray)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DataError(f"{file} is damaged ({error}); fetch it anew") from error
    return found


def exchange_facts(result: CVResult) -> dict[str, Any]:
    """Distances between classes and shares astray, for every network and both scalings."""
    (method,) = result.methods
    assert result.data.y is not None
    classes = result.data.y.numpy()
    found: dict[str, list[Any]] = {name: [] for name in SCALED}
    for network in (each for group in method.features for each in group.double().numpy()):
        spread = network.std(0)
        scaled = (network - network.mean(0)) / np.where(spread > 0, spread, 1)
        for name, features in (("raw", network), ("standardised", scaled)):
            distances, astray = class_distances(features, classes)
            found[name].append(
                {"distances": distances.round(5).tolist(), "astray": astray.round(5).tolist()}
            )
    return {"exchange": found}


def network_preferences(row: Row, scaling: str) -> Floats:
    """Preferences of every network of a cell, ``[networks, classes, classes]``."""
    found = [
        preferences(np.array(one["distances"]), np.array(one["astray"]))
        for one in row["exchange"][scaling]
    ]
    return np.stack(found)


def table_of(rows: dict[str, Row], references: dict[str, Floats]) -> pd.DataFrame:
    """A row a method and scaling: accuracy, share astray, distances to the references."""
    found = []
    for row in rows.values():
        paper = printed("enzyme_exchange", "", row["method"])
        for scaling, words in SCALED.items():
            matrices = network_preferences(row, scaling)
            astray = np.mean([one["astray"] for one in row["exchange"][scaling]])
            line: dict[str, Any] = {
                "method": row["method"],
                "features": words,
                "accuracy": f"{row['mean']:.2f} ± {row['std']:.2f}",
                "guess": f"{np.mean(row['guess']):.2f}",
                "astray": f"{astray:.2f}",
                "paper": "" if paper is None else f"{paper.mean:.3f}",
            }
            for name, reference in references.items():
                each = np.array([cosine_distance(matrix, reference) for matrix in matrices])
                each = each[np.isfinite(each)]  # undefined where no enzyme is astray
                line[name] = f"{each.mean():.3f} ± {each.std():.3f}" if len(each) else "undefined"
            line |= {"networks": str(len(matrices)), "parameters": f"{row['parameters']:,}"}
            found.append({**line, "protocol": row["protocol"], "seconds": f"{row['seconds']:.0f}"})
    same = np.ones((len(CLASSES), len(CLASSES)))
    guess = {name: f"{cosine_distance(same, other):.3f}" for name, other in references.items()}
    found.append({"method": "all the same", **guess})
    columns = list(dict.fromkeys(name for line in found for name in line))
    return pd.DataFrame([{name: line.get(name, "") for name in columns} for line in found])


def write(request: Request, ledger: Ledger, references: dict[str, Floats]) -> Report:
    """Writes page, tables and chord diagrams of what the ledger has."""
    table = table_of(ledger.rows, references)
    narrow = ["method", "features", "accuracy", "guess", "paper", *references]
    report = Report(
        f"{TITLE}{' (quick)' if request.quick else ''}",
        table.reindex(columns=narrow, fill_value=""),
    )
    report.sections = [
        WORDS,
        tuning_words(request.quick),
        table_section("Cosine distances; the paper's are to Cuesta et al. 2015", table),
    ]
    matrices = dict(references)
    for row in ledger.rows.values():
        matrices[row["method"]] = network_preferences(row, "raw").mean(0)
    for name, matrix in matrices.items():
        shown = pd.DataFrame([[f"{v:.3f}" for v in line] for line in matrix], columns=CLASSES)
        shown.insert(0, "from", list(CLASSES))
        report.sections.append(table_section(f"Preferences: {name}", shown))
    if "observed" not in references:
        report.notes.append(
            "The exchanges that Cuesta et al. 2015 observed are not part of this package; "
            "--observed FILE.csv compares with any 6 × 6 matrix."
        )
    try:
        for name, matrix in matrices.items():
            if not np.isfinite(matrix).all() or not matrix.any():
                report.notes.append(f"No chord diagram of {name}: no enzyme is astray.")
                continue
            place = ledger.folder / f"chords-{name.replace(' ', '-').replace('.', '').lower()}"
            report.files += draw_chords(place, matrix, CLASSES)
        pictures = [file.name for file in report.files if file.suffix == ".svg"]
        report.sections.append("\n".join(f"![{name}]({name})" for name in pictures))
    except NoPictures as error:
        report.notes.append(f"No figures: {error}.")
    report.notes += [f"Not run: {name}." for name in METHODS if name not in matrices]
    write_page(request, report, ledger, {CSV: table})
    return report
