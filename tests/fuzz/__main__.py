"""``python -m tests.fuzz --minutes 30``: many inputs to every parser, and a JSON file of counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.worker import COLUMNS, PEAK, SECONDS
from tests.robustness.origin import parser_of, write_counts

KEPT = Path("fuzz-broken.jsonl")


def main() -> int:
    """Runs and writes; the exit code is 1 if anything broke."""
    parser = parser_of("tests.fuzz", __doc__, "fuzz.json")
    parser.add_argument("--minutes", type=float, default=60.0, help="at most so long (60)")
    parser.add_argument("--inputs", type=int, default=0, help="at most so many (no limit)")
    parser.add_argument("--least", type=int, default=5_000, help="of every parser first (5000)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parsers", default="", help="names, with semicolons between them")
    given = parser.parse_args()
    names = [name.strip() for name in given.parsers.split(";") if name.strip()]
    start = time.monotonic()
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    place = Path(tempfile.mkdtemp(prefix="legs-fuzz-", dir=shared))
    try:
        share = {"share": -(-given.inputs // given.jobs), "least": -(-given.least // given.jobs)}
        rows, broken = run(place, given.jobs, given.seed, names, share, 60 * given.minutes)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    known = {
        "seconds": round(time.monotonic() - start, 1),
        "seed": given.seed,
        "processes": given.jobs,
        "inputs": sum(row["inputs"] for row in rows.values()),
        "crashes": sum(row["broken"] for row in rows.values()),
        "peak_bytes": max(row["peak_bytes"] for row in rows.values()),
        "parsers": rows,
        "broken": sorted({f"{row['parser']}: {row['what']}"[:300] for row in broken})[:100],
    }
    write_counts(given, known)
    if broken:
        KEPT.write_text("".join(json.dumps(row) + "\n" for row in broken))
        print(f"the inputs are in {KEPT}")
    for name, row in rows.items():
        counts = f"{row['inputs']:>9,} inputs, {row['accepted']:>8,} accepted"
        peak = f"{row['peak_bytes'] >> 20:>5,} MB"
        print(f"{name:45} {counts}, {row['broken']} broken, {peak}")
    print(f"{known['inputs']:,} inputs in {known['seconds']:.0f} s, {known['crashes']} broken")
    print(f"counts are in {given.output}")
    return 1 if known["crashes"] else 0


def run(
    place: Path, jobs: int, seed: int, names: list[str], share: dict[str, int], seconds: float
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Keeps processes going, and counts those that an input ended as broken.

    Returns:
        Counts by parser, and what broke.
    """
    from tests.fuzz.targets import all_targets

    known = [target.name for target in all_targets() if not names or target.name in names]
    if not known:
        raise SystemExit(f"no parser has one of the names {names}")
    until = time.time() + seconds
    asked = {"seed": seed, "names": names, **share, "until": until}
    for number in range(jobs):
        np.save(place / f"{number}.npy", np.zeros((len(known), len(COLUMNS)), np.int64))
    going = {number: _start(place, number, asked) for number in range(jobs)}
    broken: list[dict[str, Any]] = []
    last = dict.fromkeys(going, (-1, time.monotonic()))
    try:
        while going:
            time.sleep(0.5)
            for number, process in list(going.items()):
                counts = np.load(place / f"{number}.npy")
                done, since = last[number]
                if int(counts[:, 0].sum()) != done:
                    last[number] = (int(counts[:, 0].sum()), time.monotonic())
                elif process.poll() is None and time.monotonic() - since > 30 * SECONDS:
                    process.kill()  # stuck where no signal of its own reaches it
                    process.wait()
                if process.poll() is None:
                    continue
                del going[number]
                if process.returncode:
                    broken.append(_ended(place, number, known, process.returncode))
                    if time.time() < until:
                        last[number] = (-1, time.monotonic())
                        going[number] = _start(place, number, asked)
    except KeyboardInterrupt:  # what has been counted so far is written
        for process in going.values():
            process.kill()
            process.wait()
    for file in place.glob("*.broken.jsonl"):
        broken += [json.loads(line) for line in file.read_text().splitlines()]
    counts = np.stack([np.load(place / f"{number}.npy") for number in range(jobs)])
    total = counts.sum(axis=0)
    total[:, PEAK] = counts[:, :, PEAK].max(axis=0)
    rows = {
        name: dict(zip(COLUMNS, map(int, row), strict=True))
        for name, row in zip(known, total, strict=True)
    }
    return rows, broken


def _start(place: Path, number: int, asked: dict[str, Any]) -> subprocess.Popen[bytes]:
    words = json.dumps({"place": str(place), "number": number, **asked})
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(place / "cache")}
    return subprocess.Popen([sys.executable, "-m", "tests.fuzz.worker", words], env=environment)


def _ended(place: Path, number: int, known: list[str], code: int) -> dict[str, Any]:
    """What a process was doing when it ended; its input still lies in its folder."""
    try:
        k = int((place / f"{number}.now").read_text())
    except (OSError, ValueError):
        return {
            "parser": "none",
            "what": f"the process ended with {code} at its start",
            "files": {},
        }
    counts = np.lib.format.open_memmap(place / f"{number}.npy", "r+")
    counts[k, 0] += 1
    counts[k, COLUMNS.index("broken")] += 1
    folder = place / f"{number}" / f"{k}"
    files = {
        str(path.relative_to(folder)): path.read_bytes().hex()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return {"parser": known[k], "what": f"the process ended with {code}", "files": files}


if __name__ == "__main__":
    sys.exit(main())
