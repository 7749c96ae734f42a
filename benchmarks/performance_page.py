"""``docs/performance.md`` from results: text around tables, every number read off the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from benchmarks.speed.summary import TRAIN, sentences, shown_ratio
from legs.training.cv.results import markdown

METHODS = {
    "auto": "torch-legs",
    "reference": "reference",
    "gcn": "GCN",
    "gin": "GIN",
}
INTRO = """\
# Performance

Written by `python -m benchmarks.performance page` from the files in
[results/performance](results/performance); no number here was typed by hand. On your machine:
`legs bench` for the main ones, `python -m benchmarks.performance` in a clone for all.

**What is measured.** A *train step* is forward and backward of `Scattering` (learned scales, order
two, four moments, float32) with the walk powers that training computes once for a data set;
*inference* is forward alone, without them. **torch-legs** is the module as users have it, by the
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
GROUP_TITLES = {
    "batches": "Batches of real graphs",
    "single": "One large graph: a whole step",
    "diffusion": "One large graph: diffusion of {channels} channels, {steps} steps",
    "growth": "Growth of a train step",
}


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The page about results by file name, each with one or more runs."""
    parts = [INTRO.strip()]
    for file in results.values():
        for result in file["runs"]:
            parts += run_parts(result)
        parts += threads_part(file["runs"])
    return "\n\n".join(parts) + "\n"


def run_parts(result: Mapping[str, Any]) -> list[str]:
    """Heading, findings and tables of one run."""
    threads = f", {result['threads']} thread{'s' * (result['threads'] != 1)}"
    on_cpu = result["device"] == "cpu"
    parts = [
        f"## {result['machine']}{threads if on_cpu else ''}",
        f"{machine_line(result)}. {limits_line(result)}.",
    ]
    said = [f"- {line[0].upper()}{line[1:]}." for line in sentences(result)]
    parts += ["What wins and what loses:", "\n".join(said)] if said else []
    sizes = {name: result["plan"][name] for name in ("channels", "steps")}
    for group, rows in grouped(result["rows"]).items():
        parts.append(f"### {GROUP_TITLES[group].format(**sizes)}")
        parts.append(pivot(rows))
        if any(row["replay_ms"] for row in rows):
            parts += ["Replayed from a CUDA graph:", pivot(rows, "replay_")]
    if result["skipped"]:
        parts.append("Left out: " + "; ".join(result["skipped"]) + ".")
    return parts


def grouped(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows by table: diffusion stands apart from whole steps."""
    groups: dict[str, list[dict[str, Any]]] = {group: [] for group in GROUP_TITLES}
    for row in rows:
        groups["diffusion" if row["work"] == "diffusion" else row["group"]].append(row)
    return {group: some for group, some in groups.items() if some}


def pivot(rows: Sequence[dict[str, Any]], kind: str = "") -> str:
    """One line per case and work, one column per method; replayed times if ``kind`` says so."""
    cases: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
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
        line += [_cell(some.get(name), name, kind) for name in methods]
        line.append(shown(own.get(f"{kind}share"), "{:.1%}"))
        if with_memory:
            both = (some.get(name, {}) for name in ("auto", "reference"))
            line += [shown(row.get("memory_mb"), "{:,.3g}") for row in both]
        lines.append(line)
    return markdown(pd.DataFrame(lines, columns=columns))


def _cell(row: Mapping[str, Any] | None, name: str, kind: str) -> str:
    if row is None:
        return ""
    taken, ratio = row[f"{kind}ms"], row[f"{kind}ratio"]
    if taken is None:
        return row["note"] if not kind else ""
    text = shown(taken, "{:,.3g}")
    return text if name == "reference" or ratio is None else f"{text} ({shown_ratio(ratio)})"


def threads_part(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """How train steps scale from the threads of the first run to those of the last."""
    if len(runs) < 2 or runs[0]["threads"] == runs[-1]["threads"]:
        return []
    first, last = (
        {_place(row): row["ms"] for row in run["rows"] if row["ms"]} for run in (runs[0], runs[-1])
    )
    lines = []
    for place, before in first.items():
        case, work, method = place
        if method == "auto" and work == TRAIN and place in last and " = " not in case:
            lines.append([case, shown_ratio(before / last[place])])
    table = pd.DataFrame(lines, columns=["case", "speed-up"])
    title = f"### From {runs[0]['threads']} to {runs[-1]['threads']} threads"
    note = "Train steps of torch-legs, how many times as fast (two runs, not interleaved):"
    return [title, note, markdown(table)] if lines else []


def _place(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["case"], row["work"], row["method"]


def shown(value: Any, form: str) -> str:
    """A value as text: no exponents, nothing where there is none.

    >>> shown(12345.6, "{:,.3g}"), shown(0.01234, "{:,.3g}"), shown(None, "{}")
    ('12,346', '0.0123', '')
    """
    if value is None:
        return ""
    if isinstance(value, float) and "g" in form and abs(value) >= 1000:
        return f"{value:,.0f}"
    return form.format(value)


def machine_line(result: Mapping[str, Any]) -> str:
    """Machine, threads, versions and date in a line."""
    versions = result["versions"]
    packages = ("torch-legs", "torch", "torch_geometric", "numba")
    installed = ", ".join(f"{name} {versions[name]}" for name in packages if name in versions)
    threads = f"{result['threads']} thread{'s' * (result['threads'] != 1)}"
    return f"{result['machine']}, {threads}, {installed}; {result['date']}"


def limits_line(result: Mapping[str, Any]) -> str:
    """The machine's limits in a line."""
    limits = result["limits"]
    return (
        f"Measured in the same run: a large copy moves {limits['copy'] / 1e9:,.3g} GB/s (read and "
        f"written), a product of float32 matrices does {limits['multiply'] / 1e9:,.4g} GFLOP/s"
    )
