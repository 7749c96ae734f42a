"""The paper's protocol, 90 models a cell, on packed data sets; beside the paper's own numbers.

``python -m benchmarks.protocol OUT.json FOLDER NAME:METHOD ... [--limit SECONDS]``

FOLDER holds data sets written by :func:`benchmarks.packed.pack`. ``NAME!`` shuffles the labels.
Every method chooses among the same learning rates, on validation loss. Cells that are in OUT.json
already are not run again.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime
import json
import math
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.packed import unpack
from legs.models.saving import versions
from legs.training.cross_validation import cross_validate
from legs.training.cv_plan import CVOptions

RATES = (1e-3, 1e-2)


def run_cell(folder: Path, data: str, method: str, device: str) -> dict[str, Any]:
    """Cross-validates one method on one data set."""
    given = unpack(folder / f"{data.rstrip('!')}.npz")
    if data.endswith("!"):
        assert given.y is not None
        order = torch.randperm(len(given), generator=torch.Generator().manual_seed(7))
        given = dataclasses.replace(given, y=given.y[order])
    start = time.monotonic()
    options = CVOptions(grid=tuple({"lr": rate} for rate in RATES))
    result = cross_validate(
        given, [method], options, device=device, way="stacked", chunk=90 * len(RATES)
    )
    found = result.methods[0]
    return {
        "data": data.rstrip("!"),
        "shuffled": data.endswith("!"),
        "method": method,
        "mean": found.mean,
        "std": found.std,
        "scores": found.scores,
        "guess": result.guess,
        "rates": list(RATES),
        "chosen": found.chosen,
        "models": found.models,
        "parameters": found.parameters,
        "seconds": time.monotonic() - start,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "versions": versions(),
        "date": str(datetime.date.today()),
        "seed": options.training.seed,
    }


def page(rows: list[dict[str, Any]], paper: dict[tuple[str, str], tuple[float, float]]) -> str:
    """A Markdown table: ours, the paper's, and whether ours is within one standard error."""
    lines = [
        "| data | method | ours | paper | difference | combined standard error | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours = f"{100 * row['mean']:.2f} ± {100 * row['std']:.2f}"
        name = f"{row['data']}, shuffled labels" if row["shuffled"] else row["data"]
        known = paper.get((row["data"], row["method"].upper()))
        if known is None or row["shuffled"]:
            guess = 100 * sum(row["guess"]) / len(row["guess"])
            rest = f"guess {guess:.2f} | | "
        else:
            mean, std = known
            error = math.hypot(100 * row["std"], std) / math.sqrt(len(row["scores"]))
            rest = f"{mean:.2f} ± {std:.2f} | {100 * row['mean'] - mean:+.2f} | {error:.2f}"
        lines.append(f"| {name} | {row['method']} | {ours} | {rest} | {row['seconds']:.0f} |")
    return "\n".join(lines) + "\n"


def paper_table(path: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Mean and deviation by data set and method."""
    with path.open() as file:
        rows = list(csv.reader(file))[1:]
    return {(row[0], row[1].upper()): (float(row[2]), float(row[3])) for row in rows}


def main() -> None:
    """Runs the cells that are missing, and writes the file after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cells", nargs="*")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=math.inf)
    parser.add_argument("--paper", type=Path, help="classification.csv: writes OUT.md beside OUT")
    given = parser.parse_args()
    known = json.loads(given.out.read_text()) if given.out.exists() else {"rows": []}
    done = {(row["data"] + "!" * row["shuffled"], row["method"]) for row in known["rows"]}
    start = time.monotonic()
    for cell in given.cells:
        data, method = cell.split(":")
        if (data, method) in done or time.monotonic() - start > given.limit:
            continue
        known["rows"].append(run_cell(given.folder, data, method, given.device))
        given.out.write_text(json.dumps(known, indent=1))
        print(cell, known["rows"][-1]["mean"], known["rows"][-1]["seconds"], flush=True)
    if given.paper:
        table = page(known["rows"], paper_table(given.paper))
        given.out.with_suffix(".md").write_text(table)


if __name__ == "__main__":
    main()
