"""Losses epoch by epoch, for people and for other programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from legs.models.saving import write_atomically
from legs.training.checkpoint import State

COLUMNS = ("epoch", "train_loss", "validation_loss")


class Records:
    """Writes ``metrics.jsonl`` while a run goes, ``metrics.csv`` at its end, and TensorBoard's
    files if TensorBoard is installed.

    Args:
        folder: of the run, or ``None`` to write nothing.
        settings: written to ``settings.json`` at the start.
    """

    def __init__(self, folder: Path | None, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.board: Any = None
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "settings.json").exists():
            write_atomically(folder / "settings.json", json.dumps(settings, indent=1).encode())
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self.board = SummaryWriter(str(folder / "tensorboard"))

    def add(self, row: dict[str, float]) -> None:
        """Notes an epoch."""
        if self.folder is None:
            return
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
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
