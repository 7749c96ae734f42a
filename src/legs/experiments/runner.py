"""Runs the cells of an experiment that are not done yet, and keeps each when it is."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.experiments.cells import Cell
from legs.experiments.ledger import Ledger
from legs.experiments.outlook import Outlook, Progress
from legs.experiments.provenance import provenance
from legs.experiments.references import REFERENCES, reference_result
from legs.experiments.request import Request
from legs.experiments.rows import row_of
from legs.experiments.stopwatch import Stopwatch
from legs.training import CVResult, TrainingError, cross_validate
from legs.training.cv_progress import CVProgress

# On a GPU all models of a cell at once, both learning rates; fewer where memory does not suffice.
GPU_CHUNK = 180
CPU_CHUNK = 90
NO_TIME = "no time was left; the same command goes on"


def run_cells(
    request: Request,
    cells: Sequence[Cell],
    ledger: Ledger,
    header: dict[str, Any],
    progress: Progress = lambda facts: None,
    more: Callable[[CVResult], dict[str, Any]] = lambda result: {},
    kept: Callable[[Cell, CVResult, float], dict[str, Any]] = row_of,
) -> None:
    """Cross-validates every cell that the ledger does not have.

    A set that cannot be had and a training that fails are noted in ``ledger.left_out``, and the
    others go on; if none of the cells is there in the end, the first such error is raised.

    Args:
        request: what was asked for.
        cells: of the plan, in order; those of one data set should follow each other.
        ledger: keeps what is finished.
        header: what ``results.json`` tells of the run.
        progress: called now and then with how far the plan is.
        more: what else is kept of a finished cell.
        kept: what is kept of a finished cell and its seconds (default: accuracies).
    """
    if request.engine == "local":  # the nodes of a cluster may have what this one has not
        check_device(request.device)
    ledger.check(header)
    outlook = Outlook(cells, progress)
    here = provenance(request.device, request.at_once)
    for cell in cells:
        if (row := ledger.find(cell)) is not None:
            outlook.end(cell, row["seconds"] if row["device"] == here["device"] else None)
    if request.engine != "local" or request.at_once > 1:
        from legs.experiments.spreading import spread_cells

        spread_cells(request, cells, ledger, header, outlook, more, kept)
        return
    start, loaded, first_error = time.monotonic(), _Loaded(), None
    for cell in cells:
        if cell.key in outlook.finished:
            continue
        if request.minutes is not None and time.monotonic() - start > 60 * request.minutes:
            ledger.left_out[cell.key] = NO_TIME
            continue
        outlook.tell(cell)
        try:
            result, seconds = run_cell(request, cell, loaded(cell), ledger.folder, outlook)
        except (DataError, TrainingError) as error:
            first_error = first_error or error
            ledger.left_out[cell.key] = f"{cell.title}: {error}"
            continue
        row = {
            **kept(cell, result, seconds),
            **more(result),
            **provenance(request.device, request.at_once),
        }
        ledger.add(row, header)
        outlook.end(cell, seconds)
    if first_error is not None and not any(cell.key in ledger.rows for cell in cells):
        raise first_error
    ledger.write(header)


def run_cell(
    request: Request, cell: Cell, data: GraphDataset, folder: Path, outlook: Outlook
) -> tuple[CVResult, float]:
    """Cross-validates one cell in a folder of its own, where it goes on after interruptions.

    Returns:
        What it found, and the seconds it took over all runs.
    """
    place = folder / "cells" / cell.key
    watch = Stopwatch(place)

    def tell(facts: CVProgress) -> None:
        watch.tick()
        outlook.tell(cell, facts)

    try:
        with warnings.catch_warnings():
            # Of functorch, about what it has no fast way for: what is faster is found by trial.
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            result = _cross_validated(request, cell, data, place, tell)
    finally:
        seconds = watch.stop()
    return result, seconds


def check_device(device: str) -> None:
    """A clear error where there is no such device."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError("no CUDA device was found; --device cpu computes without one")


def _cross_validated(
    request: Request, cell: Cell, data: GraphDataset, place: Path, tell: Any
) -> CVResult:
    splits = cell.splits(data)
    if cell.method in REFERENCES:
        assert splits is not None
        return reference_result(cell.method, data, splits, cell.options)
    gpu = request.device.startswith("cuda")
    chunk = GPU_CHUNK if gpu else CPU_CHUNK
    while True:
        try:
            return cross_validate(
                data,
                [cell.method],
                cell.options,
                splits=splits,
                directory=place,
                device=request.device,
                way="stacked" if gpu else "auto",
                workers=request.workers or os.cpu_count() or 1,
                chunk=chunk,
                keep_features=cell.embedded,
                measures=cell.measures,
                progress=tell,
            )
        except torch.OutOfMemoryError:
            if not gpu:
                raise
            least = chunk == 1
            chunk = max(1, min(chunk, cell.models) // 2)
        # Outside the except: what the traceback holds is free only here, and no error keeps it.
        gc.collect()
        torch.cuda.empty_cache()
        if least:
            shared = " or a smaller --at-once" if request.at_once > 1 else ""
            raise TrainingError(
                f"the memory of {request.device} does not suffice to train one model by itself; "
                f"try --device cpu{shared}"
            )


class _Loaded:
    """The data set of the last cell: cells of one set follow each other."""

    def __init__(self) -> None:
        self.known: tuple[Any, ...] = ()
        self.data: GraphDataset | None = None

    def __call__(self, cell: Cell) -> GraphDataset:
        wanted = (cell.data, cell.features, cell.limit, cell.shuffled)
        if self.data is None or wanted != self.known:
            self.data = None  # two large sets need not be in memory at once
            self.data, self.known = cell.load(), wanted
        return self.data
