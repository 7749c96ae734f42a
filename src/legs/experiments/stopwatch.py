"""Time that a cell has taken, over all runs that worked on it."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from legs.files import parse_json, write_atomically, writing

FILE = "seconds.json"
KEEP_EVERY = 5.0


class Stopwatch:
    """Runs from its making on, and keeps its time in a folder: also that of runs that were killed.

    Args:
        folder: of the cell.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = Stopwatch(Path(folder)).stop()
    ...     Stopwatch(Path(folder)).stop() > first > 0
    True
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.before = 0.0
        with suppress(OSError, ValueError, TypeError):  # time is told, nothing hangs on it
            self.before = float(parse_json(self.file.read_bytes()))
        self.start = self.kept = time.monotonic()

    def seconds(self) -> float:
        """So far, earlier runs included."""
        return self.before + time.monotonic() - self.start

    def tick(self) -> None:
        """Keeps the time, now and then."""
        if time.monotonic() - self.kept > KEEP_EVERY:
            self.stop()

    def stop(self) -> float:
        """Keeps the time, and returns it."""
        self.kept = time.monotonic()
        found = self.seconds()
        write_atomically(self.file, json.dumps(found).encode())
        return found
