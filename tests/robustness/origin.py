"""Where counts come from: date, machine, versions. Long runs write them; a page shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from legs.experiments.provenance import provenance
from legs.files import write_atomically

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "reliability"


def origin() -> dict[str, Any]:
    """Date, machine, versions and commit, as JSON values."""
    return provenance("cpu")


def write_json(path: Path, known: dict[str, Any]) -> None:
    """Writes counts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(known, indent=1) + "\n").encode())
