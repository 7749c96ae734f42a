"""What the processes of tests/training/test_distributed.py do, each of them."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from legs.models import create
from legs.nn import RBF
from legs.training import Group, fit, joined, loop
from legs.training.inputs import Inputs, embed, predict, unchecked
from legs.training.task import Task
from tests.training.made import QUICK, made_data, made_split

# Of the last batch one process gets nothing.
BATCHES = ([3, 0, 8, 11, 4, 5, 20], [7, 9], [13])
KINDS = {
    "legs-fcn": "classification",
    "legs-rbf": "regression",
    "legs-attn-fcn": "classification",
    "legs-fixed": "regression",
    "mp-legs-fcn": "regression",
    "gcn": "classification",
    "gin": "regression",
    "snowball": "classification",
    "baseline": "classification",
}
LONG = replace(QUICK, max_epochs=40, validate_every=2, patience=6, precision="float64", lr=3e-2)


def gradients(name: str, group: Group) -> dict[str, Tensor]:
    """Gradients, running averages and losses of a step with each of the batches."""
    data = made_data(KINDS[name])
    if KINDS[name] == "regression":
        data.y[[0, 9, 13], [1, 0, 2]] = float("nan")
    torch.manual_seed(0)
    train = torch.arange(0, 60, 3)
    task = Task.of(data, train, balanced=True)
    network = create(name, 2, len(task.names))
    network.initialize(data.x)
    if isinstance(network.head, RBF):
        network.initialize(data.x, embed(network, data))
    network.double()
    inputs = Inputs(data.with_x(data.x.double()), network, torch.device("cpu"))
    target = task.targets(data.y)
    target = target.double() if target.is_floating_point() else target
    found = {}
    with unchecked(network), group.training(network):
        for number, batch in enumerate(BATCHES):
            network.train()
            network.zero_grad()
            loss, weight = loop.backward(network, inputs, torch.tensor(batch), target, task, group)
            found[f"{number} loss"] = group.sum(loss) / weight
            for key, parameter in network.named_parameters():
                if parameter.grad is not None:
                    found[f"{number} {key}"] = parameter.grad.clone()
        found |= {key: value.clone() for key, value in network.named_buffers()}
        found["predicted"] = predict(inputs, network, torch.tensor([5, 1, 2]), 2)
    return found


def all_gradients(folder: Path) -> None:
    """Writes what process 0 found, after all have found the same."""
    with joined() as group:
        assert group.size == 2
        for name in KINDS:
            found = gradients(name, group)
            same = b"".join(found[key].numpy().tobytes() for key in sorted(found))
            group.agree(same, f"numbers of {name}")
            if group.rank == 0:
                save_file(found, folder / f"{name}.safetensors")


def trained(folder: Path, **more: object) -> None:
    """A whole run; ``killed`` names an epoch that process 1 does not survive."""
    killed = more.get("killed")
    loop.CHECKPOINT_SECONDS = 0.0

    with joined() as group:

        def report(row: dict[str, float]) -> None:
            if group.rank == 1 and row["epoch"] == killed:
                os.kill(os.getpid(), 9)

        model = str(more.get("model", "legs-fcn"))
        fit(
            made_data(),
            model,
            made_split(),
            LONG,
            directory=folder,
            report=report,
            group=group,
        )


def one_raises() -> None:
    """Process 1 finds something wrong while process 0 waits for it."""
    with joined() as group:
        if group.rank == 1:
            raise ValueError("row 7 is bad")
        group.sum(torch.ones(1))


def one_lives_on() -> None:
    """Process 1 leaves the group after an error and does not end: the other must not wait."""
    with ExitStack() as stack:
        group = stack.enter_context(joined())
        if group.rank == 0:
            group.sum(torch.ones(1))
        stack.close()
        time.sleep(600)


def others_data() -> None:
    """The processes have different data."""
    with joined() as group:
        fit(made_data(seed=group.rank), "baseline", made_split(), QUICK, group=group)


def sleeps(folder: Path) -> None:
    """Says that it is there, and stays."""
    (folder / f"{os.getpid()}.pid").touch()
    time.sleep(600)
