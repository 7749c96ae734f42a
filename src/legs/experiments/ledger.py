"""Finished cells in ``results.json``, one a line: what a run that goes on need not do again."""

from __future__ import annotations

import json
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


class Ledger:
    """The finished cells of an experiment.

    Args:
        folder: of the experiment; made when there is something to keep.
        experiment: its name; a folder holds one only.
        reuse: folders of other experiments, whose finished cells count where all settings are the
            same.
    """

    def __init__(self, folder: Path, experiment: str, reuse: Sequence[Path] = ()) -> None:
        self.folder, self.experiment = folder, experiment
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file; -o takes a folder for the results")
        known = _read(folder / FILE)
        if known.get("experiment", experiment) != experiment:
            raise ModelError(
                f"{folder} holds results of {known['experiment']}; choose another folder with -o"
            )
        self.rows: dict[str, Row] = {row["cell"]: row for row in known.get("rows", ())}
        self.left_out: dict[str, str] = {}
        self.others: list[Row] = []
        for other in reuse:
            file = other if other.is_file() else other / FILE
            if not file.exists():
                raise ValueError(f"--reuse: there is no {file}")
            self.others += _read(file).get("rows", ())

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


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        known = check_digest(parse_json(file.read_bytes()), file)
        if not isinstance(known.get("rows"), list):
            raise ValueError("it has no rows")
        if not all(map(_is_row, known["rows"])):
            raise ValueError("its rows are not those of an experiment")
    except FileError as error:
        raise ModelError(str(error)) from error
    except ValueError as error:
        raise ModelError(f"{file} is damaged: {error}; delete it to start anew") from error
    return known


def _is_row(row: Any) -> bool:
    """Whether something has what this module asks of a finished cell."""
    return (
        isinstance(row, dict)
        and isinstance(row.get("cell"), str)
        and isinstance(row.get("settings"), dict)
    )
