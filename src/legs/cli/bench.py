"""``legs bench``: how fast scattering is on this machine, beside others."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legs.cli.choices import Device

if TYPE_CHECKING:
    from legs.cli.speed import Run
    from legs.data.dataset import GraphBatch

JSON = "bench.json"
SETS = ("nci-5k", "PROTEINS", "REDDIT-BINARY")


def bench(
    device: Annotated[
        Device, typer.Option(help="Where to compute; auto takes a GPU if there is one.")
    ] = Device.auto,
    threads: Annotated[
        int | None, typer.Option(min=1, show_default="PyTorch's", help="Threads on the CPU.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Shorter: less than half a minute.")
    ] = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the results.")
    ] = Path("legs-bench"),
) -> None:
    """Measure how fast scattering is here, beside a plain formulation, GCN and GIN.

    A train step and inference on 128 graphs of data sets that are on this machine, and on one large
    graph; each time as a ratio to the reference, plain PyTorch, in the same run.
    """
    # Imported here: torch takes seconds, and `legs --help` must not.
    import torch

    from legs.cli.console import Console
    from legs.io import has_keys, write_atomically
    from legs.models.saving import versions

    if device is Device.cuda and not torch.cuda.is_available():
        raise ValueError("no CUDA device was found; --device cpu computes without one")
    gpu = torch.cuda.is_available() and device is not Device.cpu
    place = torch.device("cuda" if gpu else "cpu")
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file; -o takes a folder for the results")
    if (output / JSON).exists() and not has_keys(output / JSON, ("machine", "rows")):
        raise ValueError(f"{output / JSON} is not of legs bench; choose another folder")
    output.mkdir(parents=True, exist_ok=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    console, rows = Console(highlight=False), []
    try:
        name = torch.cuda.get_device_name(place) if gpu else platform.processor()
        known = {"machine": name or platform.machine(), "threads": torch.get_num_threads()}
        console.print(f"{known['machine']}, {known['threads']} threads", markup=False)
        for title, graphs in _cases(console, 10**4 if quick else 10**6):
            with console.status(f"timing {title}"):
                rows += _measured(title, graphs.to(place), 0.2 if quick else 2.0)
    finally:
        torch.set_num_threads(before)
    known |= {"versions": versions(), "rows": rows}
    write_atomically(output / JSON, f"{json.dumps(known, indent=1)}\n".encode())
    for line in _table(rows).to_string(index=False).splitlines():
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"Results are in {output / JSON}", soft_wrap=True, markup=False)


def _cases(console: Any, edges: int) -> Iterator[tuple[str, GraphBatch]]:
    """Batches of real graphs that need no download, and one large graph."""
    import torch

    from legs.data import load
    from legs.data.catalog.specs import locate, lookup
    from legs.data.dataset import GraphBatch
    from legs.data.errors import DataError

    for name in SETS:
        try:
            entry = lookup(name)
            if entry is None or locate(entry) is None:
                raise DataError(f"not on this machine; `legs datasets {name}` fetches it")
            data = load(name, features="structure", limit=128 if name == SETS[0] else None)
        except (DataError, ImportError) as error:
            console.print(f"left out: {name}: {error}", soft_wrap=True, markup=False)
            continue
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
        yield f"{data.name}, {min(len(data), 128)} graphs", data.batch(order[:128])
    side = round((edges / 4) ** 0.5)
    grid = torch.arange(side * side).view(side, side)
    right, down = grid.roll(-1, 1).flatten(), grid.roll(-1, 0).flatten()
    ends = torch.stack([grid.flatten().repeat(2), torch.cat([right, down])])
    x = torch.randn(side * side, 2, generator=torch.Generator().manual_seed(0))
    batch = torch.zeros(len(x), dtype=torch.long)
    edge_index = torch.cat([ends, ends.flip(0)], dim=1)
    yield f"torus, {4 * len(x):,} edges", GraphBatch(x, edge_index, None, batch, 1, None)


def _measured(title: str, graphs: GraphBatch, seconds: float) -> list[dict[str, Any]]:
    """One row per method, those of the same work timed in turn."""
    from legs.cli.speed import compare, gnn_works, works_of
    from legs.kernels.op import Backend
    from legs.nn import Scattering

    works = {"GCN": gnn_works("gcn", graphs), "GIN": gnn_works("gin", graphs)}
    backends: dict[str, Backend] = {"torch-legs": "auto", "reference": "reference"}
    for name, backend in backends.items():
        layer = Scattering(graphs.x.shape[1], backend=backend, validate=False).to(graphs.x.device)
        works[name] = works_of(partial(layer, *graphs[:5]), list(layer.parameters()))
    rows = []
    for place, work in enumerate(("train step", "inference")):
        runs: dict[str, Run] = {name: each[place] for name, each in works.items()}
        times = compare(runs, graphs.x.device, rounds=15, least=3, seconds=seconds)
        for name, timing in times.items():
            rows.append({"graphs": title, "work": work, "method": name, **vars(timing)})
    return rows


def _table(rows: list[dict[str, Any]]) -> Any:
    """The rows for people: milliseconds, and how many times as fast as the reference."""
    import pandas as pd

    known = pd.DataFrame(rows).astype({"seconds": float, "memory": float})
    usual = known[known["method"] == "reference"].set_index(["graphs", "work"])["seconds"]
    pairs = zip(known["graphs"], known["work"], strict=True)
    ratio = pd.Series([usual[pair] for pair in pairs]) / known["seconds"]
    table = known[["graphs", "work", "method"]].copy()
    columns = {"ms": 1000 * known["seconds"], "× reference": ratio}
    columns["peak MB"] = known["memory"] / 1e6
    for name, values in columns.items():
        table[name] = values.map(lambda value: "" if pd.isna(value) else f"{value:.3g}")
    return table.drop(columns=[name for name in columns if not table[name].any()])
