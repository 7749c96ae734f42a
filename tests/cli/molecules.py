"""Tables of small molecules whose class and sizes are plain to see."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from legs.cli import main

QUICK = ("--epochs", "4", "--model", "baseline")


def rows(count: int = 40) -> list[dict[str, Any]]:
    """Alkanes and alcohols, straight and branched."""
    found = []
    for i in range(count):
        chain = "C" * (1 + i // 4) + ("C(C)C" if i % 4 > 1 else "")
        alcohol = i % 2 == 1
        found.append(
            {
                "name": f"m{i}",
                "smiles": chain + ("O" if alcohol else ""),
                "kind": "alcohol" if alcohol else "alkane",
                "atoms": len(chain) + alcohol,
                "weight": 14.03 * len(chain) + 16 * alcohol + 2.02,
                "cost": 0.5 * (i % 7) + 0.25,
            }
        )
    return found


def write(path: Path, columns: tuple[str, ...], found: list[dict[str, Any]] | None = None) -> Path:
    """A CSV file of some columns."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows() if found is None else found)
    return path


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def train_classes(folder: Path, *more: str) -> Path:
    """A quick model of the class; returns the directory of the run."""
    data = write(folder / "classes.csv", ("name", "smiles", "kind"))
    run = folder / "run"
    assert main(["train", str(data), "--target", "kind", "-o", str(run), *QUICK, *more]) == 0
    return run


def train_numbers(folder: Path, *more: str) -> Path:
    """A quick model of three numbers; returns the directory of the run."""
    data = write(folder / "numbers.csv", ("name", "smiles", "atoms", "weight", "cost"))
    targets = ("--target", "atoms", "--target", "weight", "--target", "cost")
    run = folder / "numbers"
    assert main(["train", str(data), *targets, "-o", str(run), *QUICK, *more]) == 0
    return run


def told(capsys: Any) -> str:
    """The error of the last command, after checking that it is one line."""
    err: str = capsys.readouterr().err
    assert err.startswith("legs: ")
    assert err.count("\n") == 1
    return err
