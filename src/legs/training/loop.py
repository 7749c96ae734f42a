"""The training loop."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from legs.data.splits import Split
from legs.models import ModelError, Network
from legs.training.calibration import calibrate
from legs.training.checkpoint import State, load_state, plain, save_state
from legs.training.distributed import ALONE, Group
from legs.training.inputs import Reader, predict
from legs.training.options import TrainingOptions
from legs.training.task import Task, to_minimize

# Seconds between checkpoints: rare enough to cost nothing, often enough to lose little.
CHECKPOINT_SECONDS = 10.0

Report = Callable[[dict[str, float]], None]
Batches = Callable[[int], Iterable[Tensor]]


class TrainingError(ValueError):
    """Training that cannot continue; the message says why and what to try."""


def train(
    network: Network,
    inputs: Reader,
    y: Tensor,
    split: Split,
    task: Task,
    options: TrainingOptions,
    *,
    checkpoint: Path | None = None,
    settings: dict[str, Any] | None = None,
    report: Report = lambda row: None,
    batches: Batches | None = None,
    group: Group = ALONE,
) -> State:
    """Trains a network in place, leaves it with its best weights, and returns the final state.

    Adam; the validation loss decides which weights are best and when to stop. An epoch depends on
    its number, the seed and the weights before it only, so a run that was killed resumes from its
    checkpoint and ends with the same weights.

    ``y`` are unscaled targets of all graphs. ``settings`` must not have changed when a run resumes.
    ``batches`` are those of an epoch, by its number (default: :func:`random_batches`). Processes
    of a ``group`` share every batch, each calling this; process 0 alone needs a ``checkpoint``.
    """
    settings, target = settings or {}, task.targets(y)
    if target.is_floating_point():
        target = target.to(next(network.parameters()).dtype)
    optimizer = _optimizer(network, options)
    group.agree(plain(settings), "settings or data")
    # Process 0 reads it: the others may have no file.
    state = group.broadcast(load_state(checkpoint, settings) if checkpoint else None)
    if state is None:
        state = State()
    else:
        _restore(network, optimizer, state)
    draw = batches or partial(random_batches, torch.as_tensor(split.train), options)
    validation_index = torch.as_tensor(split.validation).to(target.device)
    if bool(target[validation_index].isnan().all()):
        raise TrainingError("no validation graph has a target: nothing decides when to stop")

    def run(epoch: int) -> float:
        """An epoch of training; returns its loss."""
        network.train()
        sums = []  # read off at the end: a GPU would have to wait for every batch
        # Each process draws the dropout of its own graphs.
        with seeded(options.seed + group.rank * 2**32, epoch, target.device):
            for batch in draw(epoch):
                optimizer.zero_grad()
                half = options.precision == "bfloat16"
                sums.append(backward(network, inputs, batch, target, task, group, half))
                if options.clip is not None:
                    torch.nn.utils.clip_grad_norm_(network.parameters(), options.clip)
                optimizer.step()
        total, weight = torch.stack(sums).sum(0)
        return float(group.sum(total) / weight.clamp_min(1e-12))

    def validate() -> tuple[float, float, float]:
        """The scale of the scores, 1 where nothing is calibrated, the loss at it, and what decides:
        the loss, or a score to minimize.
        """
        out = predict(inputs, network, validation_index, max(options.batch_size, 512))
        truth = target[validation_index]
        scale, loss = 1.0, float(task.loss(out, truth))
        if calibrates(task, network, options):
            scale, loss = map(float, calibrate(out, truth, task.terms(out, truth)[1]))
        if options.metric is None:
            return scale, loss, loss
        answers = task.answers(scale * out.float()).cpu()
        value = to_minimize(options.metric, task.scores(answers, y[validation_index].cpu()))
        if math.isnan(value):
            raise TrainingError(f"{options.metric} is not defined on the validation graphs")
        return scale, loss, value

    def save(path: Path) -> None:
        state.tensors["network"] = dict(network.state_dict())
        state.tensors["adam"] = {
            f"{number}.{name}": value
            for number, moments in optimizer.state_dict()["state"].items()
            for name, value in moments.items()
        }
        save_state(path, state, settings)

    # The first epoch is saved at once: whatever happens later, there is something to go back to.
    last_saved = -math.inf
    with matrix_products(options), group.training(network):
        while state.epoch < options.max_epochs:
            # Decided where there is news: right after a validation.
            validated = bool(state.history) and "validation_loss" in state.history[-1]
            if validated and state.epoch - state.best_epoch >= options.patience:
                break
            epoch = state.epoch + 1
            for group_of in optimizer.param_groups:
                group_of["lr"] = group_of["base_lr"] * options.rate_factor(epoch)
            row = {"epoch": epoch, "train_loss": run(epoch)}
            if epoch % options.validate_every == 0 or epoch == options.max_epochs:
                scale, row["validation_loss"], value = group.broadcast(validate())
                if value < state.best_loss:
                    state.best_loss, state.best_epoch = value, epoch
                    best = state.tensors["best"] = copy.deepcopy(dict(network.state_dict()))
                    for name in best:  # the last layer has the scale
                        if scale != 1 and name.rpartition(".")[0] == network.output_layer:
                            best[name] *= scale
            # After a finite loss the last step may still have sent the weights to infinity.
            norm = float(torch.nn.utils.get_total_norm(list(network.parameters())))
            if not all(map(math.isfinite, (*row.values(), norm))):
                good = checkpoint is not None and checkpoint.exists()
                saved = f"; the last good checkpoint is {checkpoint}" if good else ""
                raise TrainingError(
                    f"the loss is not a finite number in epoch {epoch}{saved}. Try a smaller "
                    f"learning rate (it was {options.lr:g}), or clip=1"
                )
            state.epoch = epoch
            state.history.append(row)
            report(row)
            if checkpoint and time.monotonic() - last_saved > CHECKPOINT_SECONDS:
                save(checkpoint)
                last_saved = time.monotonic()
    if checkpoint:
        save(checkpoint)
    if "best" in state.tensors:
        network.load_state_dict(state.tensors["best"])
    network.eval()
    return state


def _optimizer(network: Network, options: TrainingOptions) -> torch.optim.Optimizer:
    by_rate: dict[float, list[Tensor]] = {}
    for name, parameter in network.named_parameters():
        own = options.scale_lr if is_scale(name) else None
        by_rate.setdefault(options.lr if own is None else own, []).append(parameter)
    groups = [{"params": some, "base_lr": rate} for rate, some in by_rate.items()]
    kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=options.lr, weight_decay=options.weight_decay)


def is_scale(name: str) -> bool:
    """Whether a parameter, by its name, holds learned scales."""
    return name.rpartition(".")[2] == "theta"


def calibrates(task: Task, network: Network, options: TrainingOptions) -> bool:
    """Whether the scores of a network are brought to the best scale."""
    calibrated = options.calibrate and task.kind == "classification"
    return calibrated and network.output_layer is not None


def backward(
    network: Network,
    inputs: Reader,
    batch: Tensor,
    target: Tensor,
    task: Task,
    group: Group,
    half: bool = False,
) -> Tensor:
    """Gradients of the mean loss of a batch; returns this process's sum of losses, and the weight.

    ``half``: with mixed precision.
    """
    index, counts = group.part(batch.to(target.device))
    with torch.autocast(target.device.type, torch.bfloat16, enabled=half):
        out = inputs(network, index, counts)
    # Losses are never computed in half precision.
    out = out.to(torch.promote_types(out.dtype, torch.float32))
    losses, weights = task.terms(out, target[index])
    if counts is not None:
        losses, weights = losses * counts, weights * counts
    weight = group.sum(weights.sum())
    (losses.sum() / weight.clamp_min(1e-12)).backward()
    group.sum_gradients(network)
    return torch.stack([losses.detach().sum(), weight])


def random_batches(index: Tensor, options: TrainingOptions, epoch: int) -> tuple[Tensor, ...]:
    """The graphs ``index`` in the random order of an epoch, cut into batches."""
    generator = torch.Generator().manual_seed(epoch_seed(options.seed, epoch))
    order = index[torch.randperm(len(index), generator=generator)]
    batches: tuple[Tensor, ...] = order.split(options.batch_size)
    return batches


@contextmanager
def seeded(seed: int, epoch: int, device: torch.device) -> Iterator[None]:
    """An epoch has random numbers of its own; those outside stay as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(epoch_seed(seed, epoch))
        yield


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed per epoch, so that one can be repeated without those before it."""
    return (seed * 1_000_003 + epoch) % 2**63


@contextmanager
def matrix_products(options: TrainingOptions) -> Iterator[None]:
    """Inside, GPUs take matrix products in TensorFloat-32 if the options say so."""
    flags = torch.backends.cuda.matmul
    before = flags.fp32_precision
    if options.precision != "tf32" or before == "tf32":
        yield
        return
    # The older of two names for it sets both, and whoever asks by either gets an answer.
    flags.allow_tf32 = True
    try:
        yield
    finally:
        flags.allow_tf32 = False
        flags.fp32_precision = before


def _restore(network: Network, optimizer: torch.optim.Optimizer, state: State) -> None:
    try:
        network.load_state_dict(state.tensors["network"])
    except (KeyError, RuntimeError) as error:
        raise ModelError(f"the checkpoint is of another network: {error}") from error
    moments: dict[int, dict[str, Tensor]] = {}
    for key, value in state.tensors.get("adam", {}).items():
        number, name = key.split(".", 1)
        moments.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
