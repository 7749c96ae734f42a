"""Finished cells in ``results.json``, one a line: what a run that goes on need not do again."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from legs.experiments.cells import Cell
from legs.files import (
    FileError,
    check_digest,
    digest_of,
    parse_json,
    write_atomically,
    writing,
)
from legs.models.saving import ModelError
from legs.training.checkpoint import check_settings

FILE = "results.json"
Row = dict[str, Any]
# What a run asks for that no cell is told apart by: such results do not go into one table.
SAME = ("quick", "seed")
# What every finished cell has, by its kind; others have more, which their experiments need.
KINDS = {
    **dict.fromkeys(("cell", "data", "method", "device", "machine", "commit", "date"), str),
    **dict.fromkeys(("versions", "settings"), dict),
}
NUMBERS = ("seconds", "mean", "std")


class Ledger:
    """The finished cells of an experiment.

    Args:
        folder: of the experiment; made when there is something to keep.
        experiment: its name; a folder holds one only.
        reuse: folders of other experiments, whose finished cells count where all settings are the
            same.
        needed: what a finished cell must have (default: a mean score).
        same: what must be the same for all cells of a folder, names of the header (default:
            :data:`SAME`).
    """

    def __init__(
        self,
        folder: Path,
        experiment: str,
        reuse: Sequence[Path] = (),
        needed: Sequence[str] = ("mean",),
        same: Sequence[str] = SAME,
    ) -> None:
        self.folder, self.experiment, self.same = folder, experiment, same
        self.known = check_folder(folder, experiment)
        rows = self.known.pop("rows", [])
        if not all(_is_row(row) and set(needed) <= set(row) for row in rows):
            raise ModelError(
                f"{folder / FILE} is damaged: its rows are not those of {experiment}; delete it to "
                "start anew"
            )
        self.rows: dict[str, Row] = {row["cell"]: row for row in rows}
        self.left_out: dict[str, str] = {}
        self.others: list[Row] = []
        for other in reuse:
            file = other if other.is_file() else other / FILE
            if not file.exists():
                raise ValueError(f"--reuse: there is no {file}")
            rows = _read(file)["rows"]
            found = [row for row in rows if _is_row(row)]
            if rows and not found:
                raise ValueError(f"--reuse: {file} holds no finished cells of an experiment")
            self.others += [row for row in found if set(needed) <= set(row)]

    def check(self, header: dict[str, Any]) -> None:
        """Refuses to add to results of a run that asked for something else."""
        for name in self.same if self.rows else ():
            before, now = (known.get(name, header.get(name)) for known in (self.known, header))
            if before != now:
                whose = f"with {name} {before}, not {now}"
                if name == "quick":
                    whose = "of a run with --quick" if before else "of a run without --quick"
                raise ModelError(
                    f"{self.folder} holds results {whose}; choose another folder with -o"
                )

    def find(self, cell: Cell) -> Row | None:
        """The result of a cell, if it is finished; one with other settings is an error."""
        settings = cell.settings()
        row = self.rows.get(cell.key)
        if row is not None:
            check_settings(Path(f"{self.folder} ({cell.title})"), row["settings"], settings)
            return row
        for other in self.others:
            if other["settings"] == settings:
                taken = {**other, "cell": cell.key, "variant": cell.variant}
                self.rows[cell.key] = taken
                return taken
        return None

    def add(self, row: Row, header: dict[str, Any]) -> None:
        """Keeps a finished cell."""
        self.rows[row["cell"]] = row
        self.left_out.pop(row["cell"], None)
        self.write(header)

    def write(self, header: dict[str, Any]) -> None:
        """Writes all that is known; ``header`` tells of the run."""
        known = {"experiment": self.experiment, **header, "left_out": self.left_out}
        # As a reader finds it: tuples are lists there.
        plain = json.loads(json.dumps({**known, "rows": list(self.rows.values())}))
        known["sha256"] = digest_of(plain)
        # A row a line: rows hold long lists, and files are compared line by line.
        rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in self.rows.values())
        text = f'{json.dumps(known, indent=1, ensure_ascii=False)[:-2]},\n "rows": [\n{rows}\n]}}\n'
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / FILE, text.encode())


def check_folder(folder: Path, experiment: str) -> dict[str, Any]:
    """What a folder holds of an experiment; a clear error where it is a file, or has other results.

    >>> check_folder(Path("nowhere"), "classification")
    {}
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; -o takes a folder for the results")
    known = _read(folder / FILE)
    if known and known.get("experiment") != experiment:
        whose = f"results of {known['experiment']}" if "experiment" in known else "other results"
        raise ModelError(f"{folder} holds {whose}; choose another folder with -o")
    return known


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    if file.is_dir():
        raise ModelError(f"{file} is a folder; choose another folder with -o")
    try:
        known = check_digest(parse_json(file.read_bytes()), file)
        if not isinstance(known.get("rows"), list):
            raise ValueError("it has no rows")
    except FileError as error:
        raise ModelError(str(error)) from error
    except ValueError as error:
        raise ModelError(f"{file} is damaged: {error}; delete it to start anew") from error
    return known


def _is_row(row: Any) -> bool:
    """Whether something has what is asked of a finished cell."""
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(name), kind) for name, kind in KINDS.items())
        and all(_is_number(row[name]) for name in NUMBERS if name in row)
        and "seconds" in row
        and ("mean" not in row or bool(row.get("scores")))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
