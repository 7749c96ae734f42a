"""``docs/embedding-throughput.md`` from the file of results: every number is read or computed."""

from __future__ import annotations

from typing import Any

import pandas as pd

from legs.inference.embed import PART
from legs.training.cv.results import markdown

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


def page(results: dict[str, Any]) -> str:
    """The text of the page."""
    return "\n\n".join([_head(results), _stages(results), _workers(results), _plan(results)]) + "\n"


def _head(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    label = f" ({results['label']})" if results["label"] else ""
    return f"""# Throughput of embedding

Written by `python -m benchmarks.embedding` from
[results/embedding/cpu.json](results/embedding/cpu.json); no number here was typed by hand. The same
on your machine: `python -m benchmarks.embedding`, in about two minutes.

**What is measured.** {results["rows"]:,} molecules of ZINC15 ({results["atoms"]:.1f} heavy atoms on
average) from SMILES in a text file to {results["features"]:,} features of fixed scattering
(`legs embed legs-fixed FILE -o FOLDER`) in Parquet, on {results["machine"]}, {results["device"]},
{results["date"][:10]}{label}; {versions}; commit {results["commit"][:10]}."""


def _stages(results: dict[str, Any]) -> str:
    stages = results["stages"]
    total = sum(stages.values())
    rows = [
        [words, f"{stages[name]:,.0f}", f"{stages[name] / total:.0%}"]
        for name, words in STAGES.items()
    ]
    rows.append(["all", f"{total:,.0f}", "100%"])
    share = (stages["parse"] + stages["read"]) / total
    return f"""## Where the time goes

One thread, medians over pieces of 2,000 molecules:

{markdown(pd.DataFrame(rows, columns=["stage", "µs per molecule", "share"]))}

RDKit's parsing alone takes {stages["parse"] / total:.0%}; with what is read off its molecules, atom
by atom, it is {share:.0%}. Scattering takes {stages["scatter"] / total:.0%}: that is all that a GPU
could take over."""


def _workers(results: dict[str, Any]) -> str:
    one = next(run for run in results["runs"] if run["workers"] == 1)["rows_per_second"]
    rows = []
    for run in results["runs"]:
        spread = f"{min(run['rates']):,.0f} to {max(run['rates']):,.0f}"
        rate = run["rows_per_second"]
        ratio = f"{rate / one:.2f} ×"
        rows.append([run["engine"], str(run["workers"]), f"{rate:,.0f}", spread, ratio])
    columns = ["engine", "workers", "molecules per second", "runs", "speed-up"]
    table = markdown(pd.DataFrame(rows, columns=columns))
    return f"""## Workers

Whole runs, reading and writing included, after the workers have started. Workers have a core each
and share nothing but the disk; parts of the input do not depend on each other.

{table}

One process reads the input and hands it out. It can do {results["feeding"]:,.0f} rows per
second, enough for {results["feeding"] / _each(results):,.0f} workers at the rate below. For more,
cut the file and run a command on each piece."""


def _plan(results: dict[str, Any]) -> str:
    seconds = MANY / _each(results)
    rows = []
    for cores in CORES:
        feeders = max(1, -(-int(cores * _each(results)) // int(results["feeding"])))
        rows.append([f"{cores:,}", _time(seconds / cores), str(feeders)])
    most = max(results["runs"], key=lambda run: (run["engine"] == "local", run["workers"]))
    size = results["bytes_per_row"] * MANY / 1e12
    table = markdown(pd.DataFrame(rows, columns=["cores", "time", "files to cut the input into"]))
    hours = seconds / 3600
    return f"""## A plan for 10⁹ molecules

From the rate of each of {most["workers"]} workers above, {_each(results):,.0f} molecules per
second, if that holds for more of them:

{table}

That is {hours:,.0f} core-hours, {hours * PRICE:,.0f} dollars where an hour of a core costs {PRICE}
(an assumption), and {size:,.1f} TB of Parquet ({results["bytes_per_row"]:,.0f} bytes per
molecule) in {MANY // PART:,} files. Fewer features make it smaller: `--set order=1` and
`--features atoms` leave out most columns. An interruption costs the parts in progress, seconds for
each worker; the same command resumes."""


def _each(results: dict[str, Any]) -> float:
    """Rows per second of one worker, where all cores work."""
    local = [run for run in results["runs"] if run["engine"] == "local"]
    most = max(local, key=lambda run: run["workers"])
    return float(most["rows_per_second"] / most["workers"])


def _time(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:,.1f} days" if hours >= 48 else f"{hours:,.1f} hours"
