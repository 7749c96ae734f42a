"""Where counts come from: date, machine, versions. Long runs write them; a page shows them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance
from legs.io import write_atomically

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "reliability"


def parser_of(program: str, words: str | None, file: str) -> argparse.ArgumentParser:
    """What all programs take: where to write, and what to call the run.

    Args:
        program: the module.
        words: what it does.
        file: its output, if no other is named.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=words)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER / file, help=f"({file})")
    parser.add_argument("--label", default="", help="a word about this run, for the page")
    return parser


def write_counts(given: argparse.Namespace, known: dict[str, Any]) -> None:
    """Writes counts with their origin: label, date, machine, versions and commit."""
    known = {"label": given.label, **known, **provenance("cpu")}
    given.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(given.output, (json.dumps(known, indent=1) + "\n").encode())
