"""Speed and peak memory at full size, and the page about them.

``python -m benchmarks.performance --device cpu --threads 1 2`` measures
and writes ``docs/results/performance/cpu.json``; with ``--device cuda`` the file is called after
the GPU. ``python -m benchmarks.performance page`` writes ``docs/performance.md`` from all such
files. Where the data sets are not: ``pack --packed FOLDER`` here, ``LEGS_DATA=FOLDER`` there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.packed import FOLDER, pack
from benchmarks.performance_page import page
from benchmarks.speed import GROUPS, Plan, run
from benchmarks.speed.graphs import load_local, pick
from benchmarks.speed.plan import SETS

RESULTS = Path("docs/results/performance")
PAGE = Path("docs/performance.md")


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


def pack_all(folder: Path, graphs: int = Plan.graphs) -> None:
    """Packs the first set, and of the others what a batch takes of them."""
    for name in SETS:
        path, data = folder / FOLDER / f"{name}.npz", load_local(name)
        pack(data if name == SETS[0] else data.subset(pick(data, graphs, seed=0)), path)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def write_page(results: Path, path: Path) -> None:
    """Writes the page about all results in a folder."""
    files = sorted(results.glob("*.json"))
    if not files:
        raise SystemExit(f"{results} holds no results; run python -m benchmarks.performance first")
    path.write_text(page([json.loads(f.read_text())["runs"] for f in files]), encoding="utf-8")
    print(f"{path}: from {', '.join(f.name for f in files)}")


def main(arguments: list[str] | None = None) -> None:
    """Parses the command line and does what it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "page", "pack"), default="run")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, nargs="+", default=[torch.get_num_threads()])
    parser.add_argument("--only", choices=GROUPS, nargs="+", default=GROUPS, help="some cases")
    parser.add_argument("--packed", type=Path, default="carry", help="folder of packed data sets")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of results")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    args = parser.parse_args(arguments)
    if args.what == "page":
        write_page(args.output, args.page)
    elif args.what == "pack":
        pack_all(args.packed)
    else:
        print(measure(args.device, args.threads, args.only, args.output))


if __name__ == "__main__":
    main()
