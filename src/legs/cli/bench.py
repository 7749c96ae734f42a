"""``legs bench``: how fast scattering is on this machine, beside other networks."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from legs.cli.console import Console, make_table
from legs.cli.options import Device
from legs.io import has_keys, one_writer, write_atomically

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from legs.data.dataset import GraphBatch

    Network: TypeAlias = tuple[Callable[[], Tensor], list[Tensor]]

JSON = "bench.json"
_FULL = "you tried to allocate"  # in PyTorch's words for a CPU without memory
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

    from legs.models.saving import versions
    from legs.training.runs import choose_device

    place = torch.device(choose_device(device))
    gpu = place.type == "cuda"
    console, before, rows = Console(), torch.get_num_threads(), []
    with one_writer(output, lambda folder: has_keys(folder / JSON, ("machine", "rows"))):
        torch.set_num_threads(threads or before)
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
    """One row per kind of work and method."""
    import torch

    from legs.kernels.op import Backend
    from legs.nn import Scattering

    device = graphs.x.device
    networks = {"GCN": gnn("gcn", graphs), "GIN": gnn("gin", graphs)}
    backends: dict[str, Backend] = {"torch-legs": "auto", "reference": "reference"}
    for name, backend in backends.items():
        layer = Scattering(graphs.x.shape[1], backend=backend, validate=False).to(device)
        networks[name] = partial(layer, *graphs[:5]), list(layer.parameters())
    rows: list[dict[str, Any]] = []
    for work in ("train step", "inference"):
        for name, (forward, parameters) in networks.items():
            row: dict[str, Any] = {"graphs": title, "work": work, "method": name}
            run = partial(_run, forward, parameters if work == "train step" else [])
            try:
                row |= _time(run, device, seconds)
            except RuntimeError as error:
                if not isinstance(error, torch.OutOfMemoryError) and _FULL not in str(error):
                    raise
                row |= {"seconds": None, "memory": None, "failed": "out of memory"}
            rows.append(row)
    return rows


def gnn(kind: Literal["gcn", "gin"], graphs: GraphBatch, seed: int = 0) -> Network:
    """PyG's GCN (edge weights computed once) or GIN: three layers of width 64, mean over nodes."""
    import torch
    from torch_geometric.nn import global_mean_pool
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.nn.models import GCN, GIN

    edge_index, weights = graphs.edge_index, {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "gcn":
            network = GCN(graphs.x.shape[1], 64, 3, normalize=False)
            edge_index, weight = gcn_norm(edge_index, graphs.edge_weight, len(graphs.x))
            weights = {"edge_weight": weight}
        else:
            network = GIN(graphs.x.shape[1], 64, 3)
    network.to(graphs.x.device)

    def forward() -> Tensor:
        states = network(graphs.x, edge_index, **weights)
        return global_mean_pool(states, graphs.batch, graphs.batch_size)  # type: ignore[no-any-return]

    return forward, list(network.parameters())


def _run(forward: Callable[[], Tensor], parameters: list[Tensor]) -> None:
    """Forward, and backward to the parameters if there are any."""
    import torch

    with torch.set_grad_enabled(bool(parameters)):
        out = forward()
    if parameters:
        torch.autograd.grad(out, parameters, torch.ones_like(out))


def _time(run: Callable[[], None], device: torch.device, seconds: float) -> dict[str, Any]:
    import torch
    from torch.utils.benchmark import Timer

    run()  # compiles
    gpu, memory = device.type == "cuda", None
    if gpu:
        torch.cuda.reset_peak_memory_stats(device)
        memory = -torch.cuda.memory_allocated(device)
    timer = Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
    median = timer.blocked_autorange(min_run_time=seconds).median
    if memory is not None:
        memory += torch.cuda.max_memory_allocated(device)
    return {"seconds": median, "memory": memory, "failed": ""}


def _show(console: Console, rows: list[dict[str, Any]], gpu: bool) -> None:
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
