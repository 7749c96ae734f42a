"""``legs bench``: how fast scattering is on this machine, beside other networks."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legs.cli.options import Device

if TYPE_CHECKING:
    from legs.cli.console import Console
    from legs.data.dataset import GraphBatch

JSON = "bench.json"
SETS = ("nci-5k", "PROTEINS", "REDDIT-BINARY")


def bench(
    device: Device = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, show_default="PyTorch's", help="Threads on the CPU.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Take less than half a minute.")] = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the results.")
    ] = Path("legs-bench"),
) -> None:
    """Measure the speed of scattering beside its reference in plain PyTorch, GCN and GIN.

    A train step and inference on 128 graphs of data sets that are on this machine, and on one large
    graph; every time is also reported as a ratio to the reference in the same run.
    """
    # Imported here: torch takes seconds, and `legs --help` must not.
    import torch

    from legs.cli.console import Console
    from legs.io import has_keys, write_atomically
    from legs.models.saving import versions
    from legs.training.runs import choose_device

    place = torch.device(choose_device(device))
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file; -o takes a folder for the results")
    if (output / JSON).exists() and not has_keys(output / JSON, ("machine", "rows")):
        raise ValueError(f"{output / JSON} is not from legs bench; choose another folder")
    output.mkdir(parents=True, exist_ok=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    console, rows = Console(), []
    gpu = place.type == "cuda"
    try:
        name = torch.cuda.get_device_name(place) if gpu else platform.processor()
        results = {"machine": name or platform.machine(), "threads": torch.get_num_threads()}
        console.echo(f"{results['machine']}, {results['threads']} threads")
        for title, graphs in _cases(console, 10**4 if quick else 10**6):
            with console.status(f"timing {title}"):
                rows += _measure(title, graphs.to(place), 0.2 if quick else 2.0)
    finally:
        torch.set_num_threads(before)
    results |= {"versions": versions(), "rows": rows}
    write_atomically(output / JSON, f"{json.dumps(results, indent=1)}\n".encode())
    _show(console, rows, gpu)
    console.echo(f"saved in   {output / JSON}")


def _cases(console: Console, edges: int) -> Iterator[tuple[str, GraphBatch]]:
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
            console.echo(f"left out: {name}: {error}")
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


def _measure(title: str, graphs: GraphBatch, seconds: float) -> list[dict[str, Any]]:
    """One row per method; those of the same work are timed in turn."""
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
        runs = {name: each[place] for name, each in works.items()}
        for name, timing in compare(runs, graphs.x.device, seconds=seconds).items():
            rows.append({"graphs": title, "work": work, "method": name, **vars(timing)})
    return rows


def _show(console: Console, rows: list[dict[str, Any]], gpu: bool) -> None:
    from legs.cli.console import make_table

    text = ("graphs", "work", "method")
    table = make_table(*text, "ms", *(["peak MB"] * gpu), "× reference", text=text)
    reference = {(r["graphs"], r["work"]): r["seconds"] for r in rows if r["method"] == "reference"}
    for row in rows:
        seconds, usual = row["seconds"], reference[row["graphs"], row["work"]]
        cells = [f"{1000 * seconds:.3g}" if seconds else row["failed"]]
        if gpu:
            cells.append(f"{row['memory'] / 1e6:.3g}" if seconds else "")
        cells.append(f"{usual / seconds:.3g}" if seconds and usual else "")
        table.add_row(*(row[name] for name in text), *cells)
    console.print(table, soft_wrap=True)
