"""``legs bench``: how fast scattering is on this machine, beside other networks."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Annotated

from typer import Option

from legs.cli import options as opt
from legs.cli.console import Console, make_table

if TYPE_CHECKING:
    from torch import nn

    from legs.data.dataset import GraphBatch

SETS = {"nci-5k": 128, "PROTEINS": None, "REDDIT-BINARY": None}  # how many graphs are read


def bench(
    device: opt.Device = "auto",
    threads: Annotated[int | None, Option(min=1, help="CPU threads; default: PyTorch's.")] = None,
    quick: Annotated[bool, Option("--quick", help="Take less than half a minute.")] = False,
) -> None:
    """Time scattering against its reference in plain PyTorch, GCN and GIN.

    Times a training step and inference on 128 graphs of each data set on this machine, and on one
    large graph; the ratio is to the reference in the same run.
    """
    import torch

    from legs.training.runs import choose_device

    place, console, rows = choose_device(device), Console(), list[tuple[str, ...]]()
    gpu, threads = place == "cuda", threads or torch.get_num_threads()
    machine = torch.cuda.get_device_name() if gpu else platform.processor() or platform.machine()
    console.echo(f"{machine}, {threads} threads, PyTorch {torch.__version__}")
    for title, graphs in _cases(console, 10**4 if quick else 10**6):
        with console.status(f"timing {title}"):
            measured = _measure(graphs.to(place), 0.2 if quick else 2.0, threads)
            rows += [(title, *row) for row in measured]
    text = ("graphs", "work", "method")
    console.print(make_table([*text, "ms", "× reference"], rows, text), soft_wrap=True)


def _cases(console: Console, edges: int) -> Iterator[tuple[str, GraphBatch]]:
    """Batches of real graphs that need no download, and one large graph."""
    import torch

    from legs.data import load
    from legs.data.catalog.specs import NAMED, locate
    from legs.data.dataset import GraphBatch
    from legs.data.errors import DataError

    random = torch.Generator().manual_seed(0)
    for name, limit in SETS.items():
        try:
            if locate(NAMED[name]) is None:
                raise DataError(f"not on this machine; `legs datasets {name}` fetches it")
            data = load(name, features="structure", limit=limit)
        except (DataError, ImportError) as error:
            console.echo(f"left out: {name}: {error}")
            continue
        chosen = torch.randperm(len(data), generator=random)[:128]
        yield f"{data.name}, {len(chosen)} graphs", data.batch(chosen)
    side = round((edges / 4) ** 0.5)
    nodes = torch.arange(side * side)
    neighbors = [(nodes + step) % len(nodes) for step in (1, -1, side, -side)]
    edge_index = torch.stack([nodes.repeat(4), torch.cat(neighbors)])
    x, batch = torch.randn(len(nodes), 2, generator=random), torch.zeros_like(nodes)
    yield f"torus, {4 * len(x):,} edges", GraphBatch(x, edge_index, None, batch, 1, None)


def _measure(graphs: GraphBatch, seconds: float, threads: int) -> Iterator[tuple[str, ...]]:
    """One row per kind of work and method: milliseconds, and ratio to the first."""
    import torch
    from torch.utils.benchmark import Timer
    from torch_geometric.nn import global_mean_pool
    from torch_geometric.nn.models import GCN, GIN

    from legs.nn import Scattering

    channels, reference = graphs.x.shape[1], math.nan
    networks: dict[str, nn.Module] = {
        "reference": Scattering(channels, backend="reference", validate=False),
        "torch-legs": Scattering(channels, validate=False),
        "GCN": GCN(channels, 64, 3, cached=True),  # computes edge weights once
        "GIN": GIN(channels, 64, 3),
    }

    def run(name: str, train: bool) -> None:
        network = networks[name].to(graphs.x.device)
        with torch.set_grad_enabled(train):
            if isinstance(network, Scattering):
                out = network(*graphs[:5])
            else:
                states = network(graphs.x, graphs.edge_index)
                out = global_mean_pool(states, graphs.batch, graphs.batch_size)
        if train:
            torch.autograd.grad(out, list(network.parameters()), torch.ones_like(out))

    for work, name in product(("train step", "inference"), networks):
        once = partial(run, name, work == "train step")
        try:
            once()  # compiles
            timer = Timer("run()", globals={"run": once}, num_threads=threads)
            taken = timer.blocked_autorange(min_run_time=seconds).median
        except torch.OutOfMemoryError:
            taken = math.nan
        reference = taken if name == "reference" else reference
        yield work, name, f"{1e3 * taken:.3g}", f"{reference / taken:.3g}"
