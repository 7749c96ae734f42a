"""A process that tries inputs until it is told to stop, or an input ends it."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

SECONDS = 20.0  # of processor time, for one input
MEMORY = 6 << 30  # bytes of address space beyond what the libraries take
COLUMNS = ("inputs", "accepted", "refused", "broken", "microseconds", "peak_bytes")
PEAK = COLUMNS.index("peak_bytes")


class Hang(BaseException):
    """An input that takes too long; no handler of ``Exception`` must swallow it."""


def work(
    place: Path, number: int, seed: int, names: list[str], share: int, least: int, until: float
) -> None:
    """Tries inputs: ``least`` of every parser, then of the parser that has had the least time.

    Args:
        place: a folder on a fast disk, of which ``number`` and files beginning with it are ours:
            counts, what is broken, the input that is being tried.
        number: of this process.
        seed: of everything.
        names: of parsers to try, empty for all.
        share: inputs to try, 0 for no limit.
        least: inputs of every parser, before time decides.
        until: when to stop, in seconds since 1970.
    """
    from tests.fuzz.target import Broken
    from tests.fuzz.targets import all_targets

    warnings.simplefilter("ignore")
    _quiet()
    targets = [target for target in all_targets() if not names or target.name in names]
    counts = np.lib.format.open_memmap(
        place / f"{number}.npy", "r+", np.int64, (len(targets), len(COLUMNS))
    )
    folders = [place / f"{number}" / f"{k}" for k in range(len(targets))]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    rng = Random(f"{seed}/{number}/{int(counts[:, 0].sum())}")
    for target, folder in zip(targets, folders, strict=True):
        for files in target.seeds:
            target.try_one(folder, files)  # imports what it needs, so that no input is charged
        target.peak = 0
    _bound()
    while time.time() < until and not (share and counts[:, 0].sum() >= share):
        k = int(counts[:, 0].argmin())
        if counts[k, 0] >= least:
            k = int(counts[:, 4].argmin())
        target = targets[k]
        (place / f"{number}.now").write_text(f"{k}")
        start = time.process_time()
        files = target.input(rng)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            outcome = target.try_one(folders[k], files)
        except Broken as error:
            outcome = "broken"
            _note(place, number, target.name, str(error), files)
        except Hang:
            outcome = "broken"
            _note(place, number, target.name, f"no end after {SECONDS:.0f} s", files)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        counts[k, 0] += 1
        counts[k, COLUMNS.index(outcome)] += 1
        counts[k, 4] += int(1e6 * (time.process_time() - start)) + 1
        counts[k, PEAK] = max(counts[k, PEAK], target.peak)


def _note(place: Path, number: int, name: str, what: str, files: dict[str, bytes]) -> None:
    row = {"parser": name, "what": what, "files": {k: v.hex() for k, v in files.items()}}
    with (place / f"{number}.broken.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def _bound() -> None:
    """Inputs that take all memory or time must not take the machine's."""

    def stop(*_: Any) -> None:
        raise Hang

    signal.signal(signal.SIGVTALRM, stop)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, resource.RLIM_INFINITY))


def _quiet() -> None:
    try:
        from rdkit import RDLogger
    except ImportError:
        return
    RDLogger.DisableLog("rdApp.*")


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    work(Path(given.pop("place")), **given)
