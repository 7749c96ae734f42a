"""Losses epoch by epoch, for people and for other programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from legs.io import append, parse_json, read_file, write_atomically, writing
from legs.models.saving import ModelError
from legs.training.checkpoint import State, check_settings, plain

COLUMNS = ("epoch", "train_loss", "validation_loss")


class Records:
    """Writes ``metrics.jsonl`` while a run goes, ``metrics.csv`` at its end, and TensorBoard's
    files if TensorBoard is installed.

    Args:
        folder: of the run, or ``None`` to write nothing.
        settings: written to ``settings.json`` at the start; a folder with other ones is refused.
    """

    def __init__(self, folder: Path | None, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.board: Any = None
        if folder is None:
            return
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._check(folder / "settings.json", settings)
        self._mend(folder / "metrics.jsonl")
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self.board = SummaryWriter(str(folder / "tensorboard"))

    def _check(self, path: Path, settings: dict[str, Any]) -> None:
        if not path.exists():
            write_atomically(path, json.dumps(plain(settings), indent=1).encode())
            return
        try:
            old = dict(parse_json(read_file(path)))
        except (ValueError, TypeError) as error:
            raise ModelError(f"{path} is damaged: {error}; delete it to start anew") from error
        check_settings(path.parent, old, settings)

    def _mend(self, path: Path) -> None:
        """Removes half a line that a killed run may have left at the end."""
        content = read_file(path) if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            write_atomically(path, whole)

    def add(self, row: dict[str, float]) -> None:
        """Notes an epoch."""
        if self.folder is None:
            return
        append(self.folder / "metrics.jsonl", json.dumps(row) + "\n")
        if self.board is not None:
            for name in COLUMNS[1:]:
                if name in row:
                    self.board.add_scalar(name, row[name], int(row["epoch"]))

    def finish(self, state: State) -> None:
        """Writes the whole history; a run that was killed may have noted some epochs twice."""
        if self.folder is None:
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(state.history)
        write_atomically(self.folder / "metrics.csv", text.getvalue().encode())
        lines = "".join(json.dumps(row) + "\n" for row in state.history)
        write_atomically(self.folder / "metrics.jsonl", lines.encode())
        if self.board is not None:
            self.board.close()
