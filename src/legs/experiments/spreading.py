"""The cells of an experiment on an engine: each is done by a worker, and kept here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from legs.data.errors import DataError
from legs.engine import open_engine
from legs.experiments.cells import Cell
from legs.experiments.ledger import Ledger, Row
from legs.experiments.outlook import Outlook, work_of
from legs.experiments.provenance import provenance
from legs.experiments.request import Request
from legs.experiments.runner import NO_TIME, run_cell
from legs.files import FileError, one_writer
from legs.training import CVResult, TrainingError

# A worker that was taken for dead may hold a cell a little longer.
PATIENCE = 120.0
# Bytes of a GPU's memory that a process needs besides its tensors: libraries, kernels, recordings.
OF_A_PROCESS = 2**30


@dataclass(frozen=True)
class Shared:
    """What every cell needs."""

    request: Request
    more: Callable[[CVResult], dict[str, Any]]
    kept: Callable[[Cell, CVResult, float], dict[str, Any]]
    until: float | None  # no cell begins after that, in seconds of the clock that all share


def spread_cells(
    request: Request,
    cells: Sequence[Cell],
    ledger: Ledger,
    header: dict[str, Any],
    outlook: Outlook,
    more: Callable[[CVResult], dict[str, Any]],
    kept: Callable[[Cell, CVResult, float], dict[str, Any]],
) -> None:
    """Does the cells that are not finished, as many at once as the engine has workers.

    A cell keeps its checkpoints in a folder of its own, which every worker must see: one that was
    killed in the middle goes on elsewhere.

    Args:
        request: what was asked for.
        cells: of the plan.
        ledger: keeps what is finished.
        header: what ``results.json`` tells of the run.
        outlook: knows which cells are finished.
        more: what else is kept of a finished cell.
        kept: what is kept of a finished cell and its seconds.
    """
    # The longest first: else one of them may be at work alone when all others are done.
    todo = sorted((c for c in cells if c.key not in outlook.finished), key=work_of, reverse=True)
    begun, first_error = 0, ""
    until = None if request.minutes is None else time.time() + 60 * request.minutes
    at_once = min(request.at_once, max(len(todo), 1))  # so many share the device
    reuse = tuple(path.absolute() for path in request.reuse)
    # A worker has one core: within a cell nothing is spread any further.
    own = replace(
        request,
        folder=ledger.folder.absolute(),
        workers=1,
        reuse=reuse,
        engine="local",
        at_once=at_once,
    )

    def in_time() -> Iterator[Cell]:
        nonlocal begun
        for cell in todo:
            if until is not None and time.time() > until:
                return
            begun += 1
            yield cell

    options = {"workers": at_once} if request.engine == "local" else {}
    gpus = 1 if request.device.startswith("cuda") else 0
    own.folder.mkdir(parents=True, exist_ok=True)
    if todo:
        outlook.tell(todo[0])
        with open_engine(request.engine, request.address, **options) as engine:
            for place, (row, why) in engine.run(
                make_row, Shared(own, more, kept, until), in_time(), gpus=gpus
            ):
                cell = todo[place]
                if why == NO_TIME:
                    ledger.left_out[cell.key] = NO_TIME
                    continue
                if row is None:
                    first_error = first_error or why
                    ledger.left_out[cell.key] = f"{cell.title}: {why}"
                    continue
                ledger.add(row, header)
                outlook.end(cell, row["seconds"] / engine.workers)
                outlook.tell(cell)
    for cell in todo[begun:]:
        ledger.left_out[cell.key] = NO_TIME
    if first_error and not any(cell.key in ledger.rows for cell in cells):
        raise DataError(first_error)
    # In the order of the plan, not in that in which workers were done.
    planned = [cell.key for cell in cells if cell.key in ledger.rows]
    others = [key for key in ledger.rows if key not in planned]
    ledger.rows = {key: ledger.rows[key] for key in [*others, *planned]}
    ledger.write(header)


def make_row(shared: Shared, cell: Cell) -> tuple[Row | None, str]:
    """The result of a cell, or why there is none; what an engine's workers do."""
    request = shared.request
    if shared.until is not None and time.time() > shared.until:
        return None, NO_TIME  # engines take tasks a little before workers are free
    if not request.folder.is_dir():
        raise FileError(
            f"{request.folder} is not to be seen on every machine of the cluster; the output has "
            "to be on a disk that all of them share, under the same path"
        )
    if request.device.startswith("cuda"):
        # A cell that needs more trains fewer models at once, from its beginning. Without a share of
        # its own it would find that out late, whenever others happen to take more.
        whole = torch.cuda.get_device_properties(request.device).total_memory
        share = max(whole / request.at_once - OF_A_PROCESS, OF_A_PROCESS) / whole
        number = torch.device(request.device).index
        torch.cuda.set_per_process_memory_fraction(min(share, 1.0), number)
    silent = Outlook([cell], lambda facts: None)
    with _patiently(request.folder / "cells" / cell.key):
        try:
            result, seconds = run_cell(request, cell, cell.load(), request.folder, silent)
        except (DataError, TrainingError) as error:
            return None, str(error)
    row = {**shared.kept(cell, result, seconds), **shared.more(result)}
    return {**row, **provenance(request.device, request.at_once)}, ""


@contextmanager
def _patiently(folder: Path) -> Iterator[None]:
    """The only writer of a folder, as soon as the one before is gone."""
    start = time.monotonic()
    while True:
        try:
            held = one_writer(folder)
            held.__enter__()
            break
        except FileError:
            if time.monotonic() - start > PATIENCE:
                raise
            time.sleep(1)
    try:
        yield
    finally:
        held.__exit__(None, None, None)
