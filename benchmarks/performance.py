"""Speed and peak memory at full size, and the page about them.

``python -m benchmarks.performance --device cpu --threads 1 2`` measures
and writes ``docs/results/performance/cpu.json``; with ``--device cuda`` the file is called after
the GPU. ``python -m benchmarks.performance page`` writes ``docs/performance.md`` from all such
files. Where the data sets are not: ``python -m benchmarks.packed FOLDER classification`` here,
``LEGS_DATA=FOLDER`` there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from benchmarks.speed import GROUPS, Plan, run
from legs.training.cv.results import markdown

RESULTS = Path("docs/results/performance")
PAGE = Path("docs/performance.md")
METHODS = {"auto": "torch-legs", "reference": "reference", "gcn": "GCN", "gin": "GIN"}
INTRO = """\
# Performance

Written by `python -m benchmarks.performance page` from the files in
[results/performance](results/performance); no number here was typed by hand. On your machine:
`legs bench` for the main ones, `python -m benchmarks.performance` in a clone for all.

**What is measured.** A *train step* is forward and backward of `Scattering` (learned scales, order
two, four moments, float32) with the walk powers that training computes once for a data set;
*inference* is forward alone, without them. The default has two input channels, the paper's two node
features. **torch-legs** is the module as users have it, by the
path named beside it (`cpu` and `cuda` are fused kernels); **reference** is `legs.functional`, plain
PyTorch with CSR products. **GCN** and **GIN** are PyG's, three layers of width 64, mean over the
nodes (GCN's edge weights computed beforehand).

Times are medians in milliseconds of runs that take turns in one process; in parentheses, how many
times as fast as the reference in the same run. On shared machines only these ratios mean much.
*Of limit* is the time that counted bytes and operations would take at the copy bandwidth and the
multiply-add rate measured in the same run, over the time taken; for diffusion, the share of the
bandwidth of a copy that takes turns with it. `benchmarks.speed.counting` has the formulas.
They count what cannot be avoided, with all between in cache: small batches stay far below the limit
on a GPU, where launching takes longer than computing, and a graph whose rows are gathered from
cache may pass the bandwidth of a copy. *Replayed* times are of the same step recorded in a CUDA
graph. Edges are counted in both directions. *Peak* is memory beyond what was in use before: on a
GPU the allocator's, on a CPU that of a fresh process.
"""
RIVALS = {
    "reference": "the reference",
    "gcn": "a GCN of three layers",
    "gin": "a GIN of three layers",
}
# Within so much of each other, two times are called equal: shared machines are not quieter.
EQUAL = 1.05
GROUP_TITLES = {
    "batches": "Batches of real graphs",
    "single": "One large graph: a whole step",
    "diffusion": "One large graph: diffusion of {channels} channels, {steps} steps",
    "growth": "Growth of a train step",
}

Rows = Sequence[Mapping[str, Any]]


def measure(device: str, threads: list[int], groups: list[str], folder: Path) -> Path:
    """Runs all cases for each number of threads; rewrites the file after every case."""
    gpu = torch.cuda.get_device_name(device) if device == "cuda" else "cpu"
    name = "-".join(gpu.lower().removeprefix("nvidia").split())
    path = folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    runs: list[dict[str, Any]] = []
    for count in threads:
        torch.set_num_threads(count)
        runs.append({})
        for result in run(Plan(), device, groups):
            runs[-1] = result.as_dict()
            path.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    return path


def write_page(results: Path, path: Path) -> None:
    """Writes the page about all results in a folder."""
    files = sorted(results.glob("*.json"))
    if not files:
        raise SystemExit(f"{results} holds no results; run python -m benchmarks.performance first")
    path.write_text(page([json.loads(f.read_text())["runs"] for f in files]), encoding="utf-8")
    print(f"{path}: from {', '.join(f.name for f in files)}")


def page(files: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """The page about files of results, each with one or more runs."""
    parts = [INTRO.strip()]
    for runs in files:
        for result in runs:
            parts += run_parts(result)
        parts += threads_part(runs)
    return "\n\n".join(parts) + "\n"


def run_parts(result: Mapping[str, Any]) -> list[str]:
    """Heading, findings and tables of one run."""
    threads = f", {result['threads']} thread{'s' * (result['threads'] != 1)}"
    heading = result["machine"] + (threads if result["device"] == "cpu" else "")
    packages = ("torch-legs", "torch", "torch_geometric", "numba")
    versions = [f"{name} {v}" for name in packages if (v := result["versions"].get(name))]
    limits = result["limits"]
    parts = [
        f"## {heading}",
        f"{result['machine']}{threads}, {', '.join(versions)}; {result['date'][:10]}. Measured in "
        f"the same run: a large copy moves {limits['copy'] / 1e9:,.3g} GB/s (read and written), a "
        f"product of float32 matrices does {limits['multiply'] / 1e9:,.4g} GFLOP/s.",
    ]
    findings = [f"- {line[0].upper()}{line[1:]}." for line in sentences(result["rows"])]
    parts += ["What wins and what loses:", "\n".join(findings)] if findings else []
    for group, title in GROUP_TITLES.items():
        rows = [row for row in result["rows"] if _table_of(row) == group]
        if rows:
            parts += [f"### {title.format(**result['plan'])}", pivot(rows)]
        if any(row["replay_ms"] for row in rows):
            parts += ["Replayed from a CUDA graph:", pivot(rows, "replay_")]
    if result["skipped"]:
        parts.append("Left out: " + "; ".join(result["skipped"]) + ".")
    return parts


def _table_of(row: Mapping[str, Any]) -> str:
    """Diffusion stands apart from whole steps."""
    return "diffusion" if row["work"] == "diffusion" else str(row["group"])


def sentences(rows: Rows) -> list[str]:
    """Where scattering wins and where it loses, every number read off rows."""
    lines = []
    for field, suffix in (("ms", ""), ("replay_ms", ", both replayed")):
        for work in ("train step", "inference"):
            for rival, name in RIVALS.items():
                if verdicts := _against(rows, rival, work, field):
                    lines.append(f"{work} against {name}{suffix}: {verdicts}")
    shares = [
        f"{row['share']:.0%} on {row['case']} ({row['path']})"
        for row in rows
        if row["work"] == "diffusion" and row["method"] == "auto" and row["share"] is not None
    ]
    if shares:
        lines.append(f"diffusion reaches, of the bandwidth of a copy: {'; '.join(shares)}")
    return lines


def _against(rows: Rows, rival: str, work: str, field: str) -> str:
    """Wins and losses of scattering against one rival, over all cases that both ran."""
    own = {(r["group"], r["case"]): r[field] for r in _rows_of(rows, "auto", work) if r[field]}
    verdicts: dict[str, list[str]] = {"faster": [], "as fast": [], "slower": []}
    for row in _rows_of(rows, rival, work):
        place = (row["group"], row["case"])
        if row["group"] == "growth" or not row[field] or place not in own:
            continue
        ratio = row[field] / own[place]
        verdict = "faster" if ratio > EQUAL else "slower" if ratio < 1 / EQUAL else "as fast"
        verdicts[verdict].append(f"{row['case']} ({shown_ratio(ratio)})")
    return ", ".join(f"{verb} on {'; '.join(cases)}" for verb, cases in verdicts.items() if cases)


def _rows_of(rows: Rows, method: str, work: str) -> Rows:
    return [row for row in rows if row["method"] == method and row["work"] == work]


def pivot(rows: Rows, kind: str = "") -> str:
    """One line per case and work, one column per method; replayed times if ``kind`` says so."""
    cases: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        cases.setdefault((row["case"], row["work"]), {})[row["method"]] = row
    methods = [name for name in METHODS if any(name in some for some in cases.values())]
    with_memory = not kind and any(row["memory_mb"] is not None for row in rows)
    columns = ["case", "work", "path", *(METHODS[name] for name in methods), "of limit"]
    columns += ["peak MB", "reference's"] if with_memory else []
    lines = []
    for (case, work), some in cases.items():
        own = some.get("auto", {})
        line = [case, work, own.get("path", "")]
        line += [_cell(some.get(name), kind) for name in methods]
        line.append("" if own.get(f"{kind}share") is None else f"{own[f'{kind}share']:.1%}")
        if with_memory:
            line += [shown(some.get(name, {}).get("memory_mb")) for name in ("auto", "reference")]
        lines.append(line)
    return markdown(pd.DataFrame(lines, columns=columns))


def _cell(row: Mapping[str, Any] | None, kind: str) -> str:
    if row is None:
        return ""
    time, ratio = row[f"{kind}ms"], row[f"{kind}ratio"]
    if time is None:
        return "" if kind else row["note"]
    plain = row["method"] == "reference" or ratio is None
    return shown(time) if plain else f"{shown(time)} ({shown_ratio(ratio)})"


def threads_part(runs: Rows) -> list[str]:
    """How train steps scale from the threads of the first run to those of the last."""
    if len(runs) < 2 or runs[0]["threads"] == runs[-1]["threads"]:
        return []
    first, last = (
        {row["case"]: row["ms"] for row in _rows_of(run["rows"], "auto", "train step") if row["ms"]}
        for run in (runs[0], runs[-1])
    )
    cases = [case for case in first if case in last and " = " not in case]
    lines = [[case, shown_ratio(first[case] / last[case])] for case in cases]
    table = markdown(pd.DataFrame(lines, columns=["case", "speed-up"]))
    title = f"### From {runs[0]['threads']} to {runs[-1]['threads']} threads"
    note = "Train steps of torch-legs, how many times as fast (two runs, not interleaved):"
    return [title, note, table] if lines else []


def shown(value: float | None) -> str:
    """A value as text: no exponents, nothing where there is none.

    >>> shown(12345.6), shown(0.01234), shown(None)
    ('12,346', '0.0123', '')
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"


def shown_ratio(ratio: float) -> str:
    """How many times as fast.

    >>> shown_ratio(12.34), shown_ratio(0.5)
    ('12 ×', '0.50 ×')
    """
    return f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.2f} ×"


def main(arguments: list[str] | None = None) -> None:
    """Parses the command line and does what it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "page"), default="run")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, nargs="+", default=[torch.get_num_threads()])
    parser.add_argument("--only", choices=GROUPS, nargs="+", default=GROUPS, help="some cases")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of results")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    args = parser.parse_args(arguments)
    if args.what == "page":
        write_page(args.output, args.page)
    else:
        print(measure(args.device, args.threads, args.only, args.output))


if __name__ == "__main__":
    main()
