"""``python -m tests.robustness.embed_kills``: a long file embedded with kills, row by row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pyarrow import parquet

from legs.inference.embed import DONE
from tests.robustness.origin import parser_of, write_counts

BAD = ("C1CC", "C(C)(C)(C)(C)C", "not-a-molecule", "[Xx]", "c1ccc")
CHILD = "--child"
EVERY = 20_011  # rows from one bad row to the next


def real_smiles(folder: Path) -> list[str]:
    """SMILES of ZINC and QM9."""
    files = [folder / "zinc" / "zinc_tranches.parquet", folder / "qm9" / "qm9.parquet"]
    return [
        s for file in files for s in parquet.read_table(file, columns=["smiles"])[0].to_pylist()
    ]


def write_rows(path: Path, smiles: list[str], rows: int, seed: int = 0) -> list[int]:
    """A table of ``rows`` rows: permutations of the SMILES, one after another, some bad among them.

    Returns:
        The rows that are bad, from 0.
    """
    rng = np.random.default_rng(seed)
    bad = list(range(EVERY // 2, rows, EVERY)) or [rows // 2]
    with path.open("w", encoding="utf-8") as file:
        file.write("smiles,id\n")
        order: npt.NDArray[Any] = np.empty(0, dtype=np.int64)
        wrong = dict(zip(bad, BAD * len(bad), strict=False))
        for row in range(rows):
            if not len(order):
                order = rng.permutation(len(smiles))
            file.write(f"{wrong.get(row) or smiles[order[0]]},r{row}\n")
            order = order[1:]
    return bad


class Run:
    """``legs embed`` in a session of its own, so that its workers can be killed with it."""

    def __init__(self, table: Path, out: Path, log: Path, engine: str, part: int) -> None:
        words = ["embed", "legs-fixed", str(table), "-o", str(out), "--on-error", "skip"]
        words += ["--engine", engine] if engine != "local" else []
        self.out = out
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.robustness.embed_kills", CHILD, str(part), *words],
                stdout=file,
                stderr=file,
                start_new_session=True,
                # One core a worker.
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    def parts(self) -> int:
        """How many are finished."""
        return sum(1 for _ in self.out.glob("part-*.parquet")) if self.out.is_dir() else 0

    def kill_at(self, parts: int, everybody: bool) -> bool:
        """Kills it when so many parts are finished; false if it ended by itself.

        Args:
            parts: so many.
            everybody: its workers, too; otherwise they find out by themselves.
        """
        while self.process.poll() is None:
            if self.parts() >= parts:
                (os.killpg if everybody else os.kill)(self.process.pid, signal.SIGKILL)
                self.process.wait()
                return True
            time.sleep(0.05)
        return False


def count(out: Path, rows: int, bad: list[int], width: int) -> dict[str, int]:
    """Looks at every row that came out; the first feature and the last stand for all.

    Args:
        out: the folder.
        rows: of the input.
        bad: rows without features.
        width: number of features.
    """
    seen = np.zeros(rows, dtype=np.int64)
    wrong = strangers = columns = 0
    expected = np.zeros(rows, dtype=bool)
    expected[bad] = True
    for file in sorted(out.glob("part-*.parquet")):
        names = parquet.read_schema(file).names
        columns += len(names) != width + 2
        table = parquet.read_table(file, columns=["row", "id", names[2], names[-1]])
        row = table["row"].to_numpy()
        inside = (row >= 0) & (row < rows)
        strangers += int((~inside).sum())
        np.add.at(seen, row[inside], 1)
        named = np.array(table["id"].to_pylist()) == np.char.add("r", row.astype(str))
        first, last = (table[k].is_null().to_numpy() for k in (2, 3))
        there = expected[np.clip(row, 0, rows - 1)]
        wrong += int((~named | (first != there) | (last != there)).sum())
    return {
        "rows_out": int(seen.sum()) + strangers,
        "missing": int((seen == 0).sum()),
        "twice": int((seen > 1).sum()) + strangers,
        "wrong": wrong + columns,
    }


def main() -> int:
    """Embeds, kills, goes on, counts and writes; the exit code is 1 if a row is not as it must."""
    parser = parser_of("tests.robustness.embed_kills", __doc__, "embed.json")
    parser.add_argument("--rows", type=int, default=1_000_000, help="(1,000,000)")
    parser.add_argument("--kills", type=int, default=2, help="(2)")
    parser.add_argument("--part", type=int, help="rows in a part (the usual; few for few rows)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--folder", type=Path, help="for files while it runs; 4 GB for 10^6 rows")
    given = parser.parse_args()
    data = Path(os.environ.get("LEGS_DATA") or Path(__file__).parents[3] / "shared" / "data")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        known = embed(given, Path(name), real_smiles(data))
    known = {"seconds": round(time.monotonic() - begun, 1), **known}
    print(known, flush=True)
    write_counts(given, known)
    return 1 if known["missing"] or known["twice"] or known["wrong"] or known["code"] else 0


def embed(given: Any, place: Path, smiles: list[str]) -> dict[str, Any]:
    """The command with its kills, and what came of it."""
    part = given.part or min(20_000, max(1, given.rows // 20))
    table, out, log = place / "rows.csv", place / "out", place / "log"
    bad = write_rows(table, smiles, given.rows)
    parts = -(-given.rows // part)
    kills, times = 0, []
    killed = []
    for k in range(given.kills):
        start = time.monotonic()
        killed.append(run := Run(table, out, log, given.engine, part))
        kills += run.kill_at(max(1, parts * (k + 1) // (given.kills + 1)), k % 2 == 1)
        times.append(time.monotonic() - start)
    kept = run.parts() if given.kills else 0
    start = time.monotonic()
    code = Run(table, out, log, given.engine, part).process.wait()
    times.append(time.monotonic() - start)
    for run in killed:  # workers that have lost their command wait a while before they end
        with suppress(ProcessLookupError):
            os.killpg(run.process.pid, signal.SIGKILL)
    width = len(parquet.read_schema(next(out.glob("part-*.parquet"))).names) - 2
    if code or not (out / DONE).exists():
        print(log.read_text(errors="replace")[-2000:], file=sys.stderr)
    listed = (out / "_bad_rows.csv").read_text().count("\n") - 1 if bad else 0
    left = [file.name for file in out.iterdir() if file.name.endswith(".tmp")]
    found = count(out, given.rows, bad, width)
    found["wrong"] += (listed != len(bad)) + len(left)
    return {
        "rows_in": given.rows,
        **found,
        "bad": len(bad),
        "listed": listed,
        "features": width,
        "parts": parts,
        "kept": kept,  # parts that the last run found done
        "kills": kills,
        "engine": given.engine,
        "runs": [round(seconds, 1) for seconds in times],
        "megabytes": round(sum(file.stat().st_size for file in out.iterdir()) / 1e6, 1),
        "code": code,
    }


def child(part: int, words: list[str]) -> int:
    """The command, with parts of another size than the usual."""
    from legs.cli import main as legs
    from legs.inference import embed as module

    module.embed_folder = partial(module.embed_folder, part=part)  # type: ignore[assignment]
    return legs(words)


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        sys.exit(child(int(sys.argv[2]), sys.argv[3:]))
    sys.exit(main())
