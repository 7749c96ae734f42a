"""Rate of embedding: SMILES to LEGS features in Parquet, stage by stage and on 1 and 2 workers.

``python -m benchmarks.embedding`` measures, writes docs/results/embedding/cpu.json and the page;
``python -m benchmarks.embedding page`` writes docs/embedding-throughput.md from the file alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from pyarrow import parquet

from benchmarks.provenance import provenance
from legs.data.features.atom_table import read_molecules
from legs.data.features.blocks import assemble
from legs.data.readers.molecules import raw_graphs
from legs.engine import Engine, open_engine
from legs.inference.embed import CHUNK, PART, Embedder, embed_folder, open_embedder, part_table
from legs.inference.inputs import InputPart, iter_batches
from legs.inference.table_writer import TableWriter
from legs.io import write_atomically
from legs.training.cv.results import markdown

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / "docs" / "results" / "embedding" / "cpu.json"
PAGE = ROOT / "docs" / "embedding-throughput.md"
MANY = 10**9  # ZINC15 has 997 million molecules
CORES = (2, 64, 512)
PRICE = 0.04  # dollars for an hour of a core: what large clouds ask for, not a measurement
STAGES = {
    "parse": "RDKit: SMILES to molecule (`Chem.MolFromSmiles`)",
    "read": "atoms and bonds of the molecule to arrays",
    "graphs": "arrays to graphs with node features",
    "scatter": "scattering, second order",
    "write": "Parquet: compress, write, flush",
}
TEXT = """\
# Throughput of embedding

Written by `python -m benchmarks.embedding` from
[results/embedding/cpu.json](results/embedding/cpu.json); no number here was typed by hand. The same
on your machine: `python -m benchmarks.embedding`, in about two minutes.

**What is measured.** {rows:,} molecules of ZINC15 ({atoms:.1f} heavy atoms on
average) from SMILES in a text file to {features:,} features of fixed scattering
(`legs embed legs-fixed FILE -o FOLDER`) in Parquet, on {machine}, {device},
{date:.10}{label}; {packages}; commit {commit:.10}.

## Where the time goes

One thread, medians over pieces of 2,000 molecules:

{stage_table}

RDKit's parsing alone takes {parsing:.0%}; with what is read off its molecules, atom
by atom, it is {reading:.0%}. Scattering takes {scattering:.0%}: that is all that a GPU
could take over.

## Workers

Whole runs, reading and writing included, after the workers have started. Workers have a core each
and share nothing but the disk; parts of the input do not depend on each other.

{run_table}

One process reads the input and hands it out. It can do {feeding:,.0f} rows per
second, enough for {fed:,.0f} workers at the rate below. For more,
cut the file and run a command on each piece.

## A plan for 10⁹ molecules

From the rate of each of {workers} workers above, {each:,.0f} molecules per
second, if that holds for more of them:

{plan_table}

That is {hours:,.0f} core-hours, {dollars:,.0f} dollars where an hour of a core costs {price}
(an assumption), and {size:,.1f} TB of Parquet ({bytes_per_row:,.0f} bytes per
molecule) in {files:,} files. Fewer features make it smaller: `--set order=1` and
`--features atoms` leave out most columns. An interruption costs the parts in progress, seconds for
each worker; the same command resumes.
"""


def zinc(rows: int) -> list[str]:
    """SMILES of ZINC, from the beginning again where there are not enough."""
    folder = Path(os.environ.get("LEGS_DATA") or ROOT.parent / "shared" / "data")
    file = folder / "zinc" / "zinc_tranches.parquet"
    smiles: list[str] = parquet.read_table(file, columns=["smiles"])["smiles"].to_pylist()
    return (smiles * (rows // len(smiles) + 1))[:rows]


def stages(embedder: Embedder, smiles: list[str], folder: Path) -> dict[str, float]:
    """Microseconds per molecule of every stage, one thread: medians over pieces of a part."""
    from rdkit import Chem

    pieces = [smiles[k : k + CHUNK] for k in range(0, len(smiles), CHUNK)]
    taken: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        taken.setdefault(name, []).append((time.perf_counter() - start) / CHUNK * 1e6)
        return result

    for piece in [pieces[0], *pieces]:  # the first is a warm-up
        timed("parse", lambda piece=piece: [Chem.MolFromSmiles(s) for s in piece])
        read = timed("read", lambda piece=piece: read_molecules(piece, False))
        data = timed("graphs", lambda r=read: assemble(raw_graphs(r, hydrogens=False), None))
        features = timed("scatter", lambda d=data: embedder.features_of(d))
        names = embedder.names_of(data.feature_names, features.shape[1])
        good, index = [""] * len(piece), list(range(len(piece)))
        part = InputPart(piece, piece, piece, good, index, data=data)

        def write(part: InputPart = part, table: Any = (features, names)) -> None:
            with TableWriter(folder / "stage.parquet", write_statistics=["row"]) as writer:
                writer.add(part_table(part, *table))

        timed("write", write)
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    # Reading parses, and then looks at every atom and bond.
    return {**medians, "read": max(0.0, medians["read"] - medians["parse"])}


def rate(embedder: Embedder, table: Path, out: Path, engine: Engine, rows: int) -> float:
    """Rows per second of a whole run, once workers have started."""
    start = time.perf_counter()
    embed_folder(embedder, table, out, engine=engine, part=max(1, min(5_000, rows // 8)))
    return rows / (time.perf_counter() - start)


def feeding(embedder: Embedder, table: Path) -> float:
    """Rows per second that the reading process can hand out."""
    start, rows = time.perf_counter(), 0
    for part in iter_batches(embedder.reading, table, chunk=20_000):
        part.digest()
        rows += len(part)
    return rows / (time.perf_counter() - start)


def measure(rows: int, engines: list[tuple[str, int]], rounds: int) -> dict[str, Any]:
    """Everything the page reports."""
    torch.set_num_threads(1)
    embedder = open_embedder("legs-fixed")
    smiles = zinc(rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, few = folder / "zinc.smi", folder / "few.smi"
        table.write_text("\n".join(smiles) + "\n")
        few.write_text("\n".join(smiles[:800]) + "\n")
        (folder / "stages").mkdir()
        results: dict[str, Any] = {"rows": rows, "feeding": feeding(embedder, table)}
        results["stages"] = stages(embedder, smiles[: 5 * CHUNK], folder / "stages")
        runs = []
        for engine, workers in engines:
            options = {"workers": workers} if engine == "local" else {"num_cpus": workers}
            with open_engine(engine, **options) as opened:
                rate(embedder, few, folder / f"few-{engine}-{workers}", opened, 800)
                out = folder / f"{engine}-{workers}"
                rates = [
                    rate(embedder, table, Path(f"{out}-{k}"), opened, rows) for k in range(rounds)
                ]
            runs.append({"engine": engine, "workers": workers, "rates": rates})
            runs[-1]["rows_per_second"] = statistics.median(rates)
            print(f"{engine}, workers: {workers}, {runs[-1]['rows_per_second']:,.0f} rows/s")
        files = [*Path(f"{out}-0").glob("part-*.parquet")]
        results["runs"] = runs
        results["bytes_per_row"] = sum(file.stat().st_size for file in files) / rows
        results["features"] = len(parquet.read_schema(files[0]).names) - 2
        results["atoms"] = float(read_molecules(smiles[:1000]).sizes.mean())
    return results


def page(results: dict[str, Any]) -> str:
    """The page about results: every number is read or computed."""
    times, runs = results["stages"], results["runs"]
    total = sum(times.values())
    stage_rows = [
        [words, f"{times[name]:,.0f}", f"{times[name] / total:.0%}"]
        for name, words in STAGES.items()
    ]
    one = next(run for run in runs if run["workers"] == 1)["rows_per_second"]
    run_rows = [
        [
            run["engine"],
            run["workers"],
            f"{run['rows_per_second']:,.0f}",
            f"{min(run['rates']):,.0f} to {max(run['rates']):,.0f}",
            f"{run['rows_per_second'] / one:.2f} ×",
        ]
        for run in runs
    ]
    most = max((run for run in runs if run["engine"] == "local"), key=lambda run: run["workers"])
    each = most["rows_per_second"] / most["workers"]  # of one worker, where all cores work
    hours = MANY / each / 3600
    plan_rows = []
    for cores in CORES:
        time = hours / cores
        text = f"{time / 24:,.1f} days" if time >= 48 else f"{time:,.1f} hours"
        plan_rows.append([cores, text, max(1, -(-int(cores * each) // int(results["feeding"])))])
    facts = {
        "label": f" ({results['label']})" if results["label"] else "",
        "packages": ", ".join(f"{name} {number}" for name, number in results["versions"].items()),
        "stage_table": _table(
            [*stage_rows, ["all", f"{total:,.0f}", "100%"]], "stage", "µs per molecule", "share"
        ),
        "parsing": times["parse"] / total,
        "reading": (times["parse"] + times["read"]) / total,
        "scattering": times["scatter"] / total,
        "run_table": _table(
            run_rows, "engine", "workers", "molecules per second", "runs", "speed-up"
        ),
        "fed": results["feeding"] / each,
        "workers": most["workers"],
        "each": each,
        "plan_table": _table(plan_rows, "cores", "time", "files to cut the input into"),
        "hours": hours,
        "dollars": hours * PRICE,
        "price": PRICE,
        "size": results["bytes_per_row"] * MANY / 1e12,
        "files": MANY // PART,
    }
    return TEXT.format(**{**results, **facts})


def _table(rows: list[Any], *columns: str) -> str:
    return markdown(pd.DataFrame(rows, columns=columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("measure", "page"), default="measure")
    parser.add_argument("--rows", type=int, default=20_000, help="(20,000)")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each engine (2)")
    parser.add_argument("--ray", action="store_true", help="Ray on two cores, too")
    parser.add_argument("--label", default="", help="a word about this run, for the page")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    if args.what == "measure":
        start = time.perf_counter()
        engines = [("local", 1), ("local", 2)] + [("ray", 2)] * args.ray
        results = measure(args.rows, engines, args.rounds)
        results = {"label": args.label, **results, **provenance("cpu")}
        results["seconds"] = round(time.perf_counter() - start, 1)
        args.output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(args.output, (json.dumps(results, indent=1) + "\n").encode())
    if args.output == OUTPUT:
        write_atomically(PAGE, page(json.loads(OUTPUT.read_text())).encode())


if __name__ == "__main__":
    main()
