"""Speed and peak memory at full size, and the page about them.

``python -m benchmarks.performance --device cpu --threads 1 2`` measures
and writes ``docs/results/performance/cpu.json``; with ``--device cuda`` the file is called after
the GPU. ``python -m benchmarks.performance page`` writes ``docs/performance.md`` from all such
files. Where the data sets are not: ``pack --packed FOLDER`` here, ``--packed FOLDER`` there.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.packed import pack, unpack
from benchmarks.performance_page import page
from benchmarks.speed import GROUPS, Plan, Result, run
from benchmarks.speed.graphs import Loader, generator, load_local
from benchmarks.speed.machine import name_of
from benchmarks.speed.plan import SETS
from benchmarks.speed.running import check_device
from legs.data.dataset import GraphDataset
from legs.data.errors import DataError

RESULTS = Path("docs/results/performance")
PAGE = Path("docs/performance.md")
SEED = 0


def file_name(device: torch.device) -> str:
    """``cpu``, or the GPU's name in short."""
    if device.type == "cpu":
        return "cpu.json"
    words = name_of(device).lower().removeprefix("nvidia").split()
    return "-".join(words) + ".json"


def measure(
    device: str,
    threads: list[int],
    groups: tuple[str, ...],
    folder: Path,
    load: Loader = load_local,
) -> Path:
    """Runs all cases for each number of threads; rewrites the file after every case."""
    path = folder / file_name(check_device(device))
    folder.mkdir(parents=True, exist_ok=True)
    runs: list[dict[str, Any]] = []

    def keep(result: Result) -> None:
        path.write_text(json.dumps({"runs": [*runs, result.as_dict()]}, indent=1) + "\n")

    for count in threads:
        result = run(
            Plan(),
            device,
            groups=groups,
            threads=count,
            seed=SEED,
            load=load,
            report=lambda done, cases, name: print(f"{done}/{cases} {name}", flush=True),
            keep=keep,
        )
        keep(result)
        runs.append(result.as_dict())
        for line in result.skipped:
            print(f"left out: {line}")
    return path


def packed_in(folder: Path) -> Loader:
    """Gives data sets from packed files, as they lie in ``folder``."""

    @cache
    def load(name: str, limit: int | None = None) -> GraphDataset:
        if not (folder / f"{name}.npz").is_file():
            raise DataError(f"{folder} holds no {name}.npz")
        data = unpack(folder / f"{name}.npz")
        return data if limit is None else data[:limit]

    return load


def pack_all(folder: Path, graphs: int) -> None:
    """Packs the first set, and of the others what a batch takes of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SETS:
        path = folder / f"{name}.npz"
        if path.exists():
            print(f"{path} is there already")
            continue
        data = load_local(name)
        if name != SETS[0]:
            order = torch.randperm(len(data), generator=generator(SEED))
            data = data.subset(order[:graphs])
        pack(data, path)
        print(f"{path}: {len(data):,} graphs, {path.stat().st_size / 1e6:.1f} MB")


def write_page(results: Path, path: Path) -> None:
    """Writes the page about all results in a folder."""
    files = sorted(results.glob("*.json"))
    if not files:
        raise SystemExit(f"{results} holds no results; run python -m benchmarks.performance first")
    path.write_text(page({f.stem: json.loads(f.read_text()) for f in files}), encoding="utf-8")
    print(f"{path}: from {', '.join(f.name for f in files)}")


def main(arguments: list[str] | None = None) -> None:
    """Parses the command line and does what it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "page", "pack"), default="run")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--threads", type=int, nargs="+", default=[torch.get_num_threads()])
    parser.add_argument("--only", default=",".join(GROUPS), help="some groups of cases")
    parser.add_argument("--packed", type=Path, help="folder of packed data sets")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of results")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    args = parser.parse_args(arguments)
    if args.what == "page":
        write_page(args.output, args.page)
    elif args.what == "pack":
        pack_all(args.packed or Path("carry"), Plan.graphs)
    else:
        load = packed_in(args.packed) if args.packed else load_local
        groups = tuple(args.only.split(","))
        print(measure(args.device, args.threads, groups, args.output, load))


if __name__ == "__main__":
    main()
