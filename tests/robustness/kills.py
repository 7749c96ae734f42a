"""``python -m tests.robustness.kills``: commands killed at random moments, and what they lose."""

from __future__ import annotations

import csv
import json
import multiprocessing
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

from tests.cli.molecules import rows, write
from tests.data.tu_sets import write_zip
from tests.fuzz.target import listing
from tests.robustness.made import tu_parts
from tests.robustness.origin import parser_of, write_counts

# What tells of time and place, not of results.
ASIDE = {"seconds", "date", "machine", "versions", "command", "commit", "device", "sha256", "files"}


class Process(Protocol):
    """What is asked of a process."""

    def wait(self, seconds: float | None) -> int | None:
        """Its exit code, or ``None`` if it has not ended within the time."""

    def kill(self) -> bool:
        """Ends it at once, whatever it is doing; false if it had just ended by itself."""


Start = Callable[[list[str], dict[str, str], Path], Process]


@dataclass
class Counts:
    """Of one command."""

    kills: int = 0
    runs: int = 0  # that were killed and then ended
    lost: int = 0  # runs whose results are not those of an undisturbed one
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """A command, and what of its output is a result."""

    name: str
    words: list[str]  # {out} stands for the output
    out: str
    results: Callable[[Path], Any]


def cases(given: Path, epochs: int = 40, molecules: int = 400) -> list[Case]:
    """The commands that people run for long, on small data that is written here."""
    found = [{**row, "name": f"m{k}"} for k, row in enumerate(rows() * (molecules // 40))]
    table = str(write(given / "mols.csv", ("name", "smiles", "kind"), found))
    few = str(write(given / "few.csv", ("name", "smiles", "kind")))
    write_zip(given / "SMALL.zip", tu_parts(), name="SMALL")
    write_zip(given / "data" / "tu" / "MUTAG.zip", tu_parts(60), name="MUTAG")
    learn = ["--epochs", str(epochs), "--model", "legs-fcn"]
    cv = ["--folds", "3", "--strategy", "stacked", "--model", "baseline"]
    reproduce = [
        "classification",
        "--quick",
        "--datasets",
        "MUTAG",
        "--models",
        "baseline,legs-fixed",
    ]
    return [
        Case("train", ["train", few, "--target", "kind", "-o", "{out}", *learn], "run", _run),
        Case("cv", ["cv", str(given / "SMALL.zip"), "-o", "{out}", *learn, *cv], "cv", _cv),
        Case("embed", ["embed", "legs-fixed", table, "-o", "{out}"], "out.parquet", _bytes),
        Case("reproduce", ["reproduce", *reproduce, "-o", "{out}"], "tables", _ledger),
    ]


def disturb(
    case: Case, place: Path, start: Start, kills: int, a_run: int, rng: Random, data: Path
) -> Counts:
    """Runs a command, kills it, runs it again, until so many kills are done.

    Args:
        case: the command.
        place: an empty folder.
        start: starts a process.
        kills: to be done at least.
        a_run: so many kills before a run may end.
        rng: chooses the moments.
        data: the folder of data sets.
    """
    counts = Counts()
    variables = {"LEGS_DATA": str(data), "XDG_CACHE_HOME": str(place / "cache")}
    begun = time.monotonic()
    code, truth = _once(case, place / "undisturbed", start, variables)
    usual = time.monotonic() - begun
    if code != 0:
        raise AssertionError(f"legs {case.name} ends with {code}: {_log(place / 'undisturbed')}")
    empty = 0
    while counts.kills < kills:
        folder = place / f"{case.name}-{counts.runs}-{empty}"
        folder.mkdir()
        done = 0
        while done < min(a_run, kills - counts.kills):
            begun = time.monotonic()
            process = start(_words(case, folder), variables, folder / "log")
            if process.wait(rng.uniform(0, 1.05 * usual)) is None and process.kill():
                done += 1
            else:  # it was faster than thought; another run is killed in its place
                usual = min(usual, time.monotonic() - begun)
                break
        if not done:
            empty += 1
            if empty > 50 + kills:
                raise AssertionError(f"legs {case.name} ends before it can be killed")
            continue
        counts.kills += done
        code, found = _once(case, folder, start, variables)
        counts.runs += 1
        left = [name for name in listing(folder) if name.endswith(".tmp")]
        if code != 0 or found != truth or left:
            counts.lost += code != 0 or found != truth
            counts.faults.append(f"exit {code}, left {left}, {_log(folder)}")
    return counts


def _once(case: Case, folder: Path, start: Start, variables: dict[str, str]) -> tuple[int, Any]:
    folder.mkdir(exist_ok=True)
    code = start(_words(case, folder), variables, folder / "log").wait(600)
    if code is None:
        return -1, None
    return code, case.results(folder / case.out) if code == 0 else None


def _words(case: Case, folder: Path) -> list[str]:
    return [word.replace("{out}", str(folder / case.out)) for word in case.words]


def _log(folder: Path) -> str:
    text = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
    return " ".join(text.split())[-300:]


class Forked:
    """A process from a server that has imported everything: it is there at once."""

    context = multiprocessing.get_context("forkserver")

    def __init__(self, words: list[str], variables: dict[str, str], log: Path) -> None:
        from tests.robustness.child import quiet

        self.context.set_forkserver_preload(["legs.training", "reproduction.run"])
        self.process = self.context.Process(target=quiet, args=(words, variables, str(log)))
        self.process.start()

    def wait(self, seconds: float | None) -> int | None:
        self.process.join(seconds)
        return self.process.exitcode

    def kill(self) -> bool:
        self.process.kill()
        self.process.join()
        return self.process.exitcode == -signal.SIGKILL


class Started:
    """A fresh interpreter, as from a terminal."""

    def __init__(self, words: list[str], variables: dict[str, str], log: Path) -> None:
        import os

        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.robustness.child", *words],
                env={**os.environ, **variables},
                stdout=file,
                stderr=file,
            )

    def wait(self, seconds: float | None) -> int | None:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> bool:
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL


def _bytes(path: Path) -> Any:
    return path.read_bytes()


def _run(folder: Path) -> Any:
    names = ("model/weights.safetensors", "metrics.csv", "test_predictions.csv", "split.json")
    found: dict[str, Any] = {name: (folder / name).read_bytes() for name in names}
    return {**found, "results.json": _json(folder / "results.json")}


def _cv(folder: Path) -> Any:
    names = ("predictions.csv", "folds.csv", "splits.json")
    found: dict[str, Any] = {name: (folder / name).read_bytes() for name in names}
    with (folder / "summary.csv").open(newline="") as file:
        found["summary"] = [{**row, "seconds": ""} for row in csv.DictReader(file)]
    return {**found, "results.json": _json(folder / "results.json")}


def _ledger(folder: Path) -> Any:
    return {file.name: _json(file) for file in sorted((folder / "cells").glob("*.json"))}


def _json(path: Path) -> Any:
    return _without(json.loads(path.read_text(encoding="utf-8")))


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(inner) for name, inner in value.items() if name not in ASIDE}
    return [_without(inner) for inner in value] if isinstance(value, list) else value


def main() -> int:
    """Kills, counts and writes; the exit code is 1 if anything was lost."""
    parser = parser_of("tests.robustness.kills", __doc__, "kills.json")
    parser.add_argument("--kills", type=int, default=100, help="of each command (100)")
    parser.add_argument("--in-a-run", type=int, default=4, help="before it may end (4)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fork", action="store_true", help="from a server: faster")
    given = parser.parse_args()
    begun, rng = time.monotonic(), Random(given.seed)
    found: dict[str, Counts] = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for case in cases(place):
            (place / case.name).mkdir()
            found[case.name] = disturb(
                case,
                place / case.name,
                Forked if given.fork else Started,
                given.kills,
                given.in_a_run,
                rng,
                place / "data",
            )
            print(f"{case.name:10} {found[case.name]}", flush=True)
    known = {
        "seconds": round(time.monotonic() - begun, 1),
        "kills": sum(counts.kills for counts in found.values()),
        "lost": sum(counts.lost for counts in found.values()),
        "commands": {name: vars(counts) for name, counts in found.items()},
    }
    write_counts(given, known)
    return 1 if known["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
