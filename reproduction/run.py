"""Runs the cells of an experiment that are not finished, one after another or side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import torch

from legs.data.errors import DataError
from legs.engine import LocalEngine
from legs.io import FileError, one_writer
from legs.models.saving import ModelError
from legs.training import TrainingError
from legs.training.checkpoint import check_settings
from legs.training.cv.cross_validation import CVProgress
from reproduction.cell import Row, read_cells, run_cell, write_cell
from reproduction.page import Report, write_page
from reproduction.plan import Cell, Request, cells_of, experiment

NO_TIME = "no time was left; the same command resumes"
# Bytes of GPU memory that a process needs besides its tensors: libraries, kernels, CUDA graphs.
PROCESS_BYTES = 2**30
Show = Callable[[float, float, list[str]], None]  # total, completed, lines of text


def run(name: str, request: Request, show: Show = lambda total, done, lines: None) -> Report:
    """Runs what is missing of an experiment, and writes tables and figures of what is there."""
    spec = experiment(name, request.quick)
    cells = cells_of(spec, request)
    if request.device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError("no CUDA device was found; --device cpu computes without one")
    with one_writer(request.folder, lambda folder: (folder / "cells").is_dir()):
        rows = read_cells(request.folder)
        _check_same(name, request, rows)
        others = [row for folder in request.reuse for row in read_cells(folder).values()]
        if request.reuse and not others:
            raise ValueError(f"--reuse: there are no finished cells in {request.reuse[0]}/cells")
        for cell in cells:
            if (row := rows.get(cell.key)) is not None:
                check_settings(
                    request.folder / "cells" / cell.key, row["settings"], cell.settings()
                )
            elif same := [row for row in others if row["settings"] == cell.settings()]:
                names = {"experiment": name, "cell": cell.key, "variant": cell.variant}
                rows[cell.key] = {**same[0], **names}
                write_cell(request.folder, rows[cell.key])
        left_out = _run_cells(name, request, cells, rows, show)
        failed = [why for why in left_out.values() if why != NO_TIME]
        if failed and not any(cell.key in rows for cell in cells):
            raise DataError(failed[0])
        return write_page(spec, request, cells, rows, left_out)


def _check_same(name: str, request: Request, rows: dict[str, Row]) -> None:
    """Results of other experiments, seeds or quick runs do not go into one table."""
    for row in rows.values():
        seed = row["seed"] if "seed" in row["variant"] else request.seed
        if (row["experiment"], row["quick"], row["seed"]) != (name, request.quick, seed):
            kind = "quick results" if row["quick"] else "results"
            raise ModelError(
                f"{request.folder} holds {kind} of {row['experiment']} with seed {row['seed']}; "
                "choose another folder with -o"
            )


@dataclass(frozen=True)
class Shared:
    """What every cell needs, also in another process."""

    name: str
    request: Request
    deadline: float | None  # no cell starts after it, in seconds of the clock
    workers: int | None = None
    report: Callable[[Cell, CVProgress], None] = lambda cell, progress: None


def _run_cells(
    name: str, request: Request, cells: Sequence[Cell], rows: dict[str, Row], show: Show
) -> dict[str, str]:
    """Runs what is missing, adds it to ``rows``, and returns why cells were left out."""
    todo = [cell for cell in cells if cell.key not in rows]
    at_once = min(request.at_once, max(len(todo), 1))
    deadline = None if request.minutes is None else time.time() + 60 * request.minutes
    start, work, total = time.monotonic(), 0.0, sum(cell.work for cell in todo)

    def report(cell: Cell, progress: CVProgress | None = None) -> None:
        done = len(cells) - len(todo) + finished
        lines = [f"cell {done + 1} of {len(cells)}: {cell.title}"]
        part = 0.0
        if progress is not None and progress.models:
            lines += str(progress).splitlines()[1:]
            part = progress.completed / progress.models
        if work:
            left = timedelta(seconds=round((time.monotonic() - start) / work * (total - work)))
            lines.append(f"about {left} left for {len(todo) - finished} cells")
        show(len(cells), done + part, lines)

    finished, left_out = 0, dict.fromkeys((cell.key for cell in todo), NO_TIME)
    own = Request(**{**vars(request), "at_once": at_once, "folder": request.folder.absolute()})
    if at_once > 1:
        # The longest first: else one of them may run alone when all others are done. A worker has
        # one core: a cell is not spread any further.
        todo.sort(key=lambda cell: cell.work, reverse=True)
        shared = Shared(name, own, deadline, workers=1)
    else:
        shared = Shared(name, own, deadline, report=report)

    def tasks() -> Iterator[Cell]:
        for cell in todo:
            if deadline is not None and time.time() >= deadline:
                return
            report(cell)
            yield cell

    with LocalEngine(at_once) as engine:
        gpus = int(request.device.startswith("cuda"))
        for place, (row, why) in engine.run(make_row, shared, tasks(), gpus=gpus):
            cell = todo[place]
            finished, work = finished + 1, work + cell.work
            if row is None:
                left_out[cell.key] = why if why == NO_TIME else f"{cell.title}: {why}"
            else:
                rows[cell.key] = row
                del left_out[cell.key]
    return left_out


def make_row(shared: Shared, cell: Cell) -> tuple[Row | None, str]:
    """Runs a cell and writes its file; returns the result, or why there is none."""
    request = shared.request
    # Engines hand out tasks a little before workers are free.
    if shared.deadline is not None and time.time() >= shared.deadline:
        return None, NO_TIME
    _share_memory(request)
    try:
        row = run_cell(shared.name, request, cell, partial(shared.report, cell), shared.workers)
    except (DataError, TrainingError, FileError) as error:
        return None, str(error)
    write_cell(request.folder, row)
    return row, ""


def _share_memory(request: Request) -> None:
    """Limits this process to its share of the GPU's memory, where cells run side by side."""
    # Without it a cell would find out late that others took more, and train fewer models only then.
    if request.device.startswith("cuda") and request.at_once > 1:
        whole = torch.cuda.get_device_properties(request.device).total_memory
        share = max(whole / request.at_once - PROCESS_BYTES, PROCESS_BYTES) / whole
        index = torch.device(request.device).index
        torch.cuda.set_per_process_memory_fraction(min(share, 1.0), index)
