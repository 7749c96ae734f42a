"""Many models at once: folds, seeds and learning rates as a leading axis of the parameters.

The models share architecture, data and batches; each has its own training graphs (a mask in the
loss and in batch norm), its own scale of targets, early stopping and best weights. One after
another they end with the same weights (:func:`train_single`): a batch is the same cut of the same
permutation, only without the graphs that a model must not see.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from legs.data.splits import Split
from legs.models import Network
from legs.nn import Scattering
from legs.training.adam import StackedAdam
from legs.training.calibration import calibrate
from legs.training.checkpoint import State, load_state, save_state
from legs.training.inputs import Inputs, trust_graphs
from legs.training.loop import (
    CHECKPOINT_SECONDS,
    Report,
    TrainingError,
    calibrates,
    random_batches,
    seeded,
    train,
)
from legs.training.options import TrainingOptions
from legs.training.replay import Replay, replayable
from legs.training.stack_parts import Head, inside_head, masks_of, scales_of, together
from legs.training.task import Task

# Graphs that all models look at together when they validate: bounds the memory of it.
VALIDATED_AT_ONCE = 2048


@dataclass(frozen=True)
class Member:
    """One model of a stack.

    Args:
        network: initialised from its own training graphs.
        split: its training and validation graphs.
        task: scaled by its own training graphs.
        lr: its learning rate.
    """

    network: Network
    split: Split
    task: Task
    lr: float


@dataclass
class Outcome:
    """How the training of one member ended; its network has the best weights."""

    best_epoch: int
    best_loss: float
    epochs: int
    history: list[tuple[int, float]]


class Standing(NamedTuple):
    """How far models are that are trained together."""

    epoch: int  # of those that run; 0 where it is not known
    running: int  # models in training
    stopped: int  # models whose training has ended
    best: float  # mean of the best validation losses so far; infinite before the first
    trained: int  # epochs of all models together


def shared_batches(graphs: int, options: TrainingOptions, epoch: int) -> tuple[Tensor, ...]:
    """The batches of an epoch, the same for all models."""
    return random_batches(torch.arange(graphs), options, epoch)


def own_batches(train: Tensor, graphs: int, options: TrainingOptions, epoch: int) -> list[Tensor]:
    """Of the shared batches of an epoch, what one model sees: its own training graphs."""
    mask = torch.zeros(graphs, dtype=torch.bool)
    mask[train] = True
    batches = [index[mask[index]] for index in shared_batches(graphs, options, epoch)]
    return [index for index in batches if len(index)]


def train_single(
    member: Member,
    inputs: Inputs,
    y: Tensor,
    options: TrainingOptions,
    report: Report = lambda row: None,
) -> Outcome:
    """Trains one member alone, on the batches it would see in a stack, to the same weights."""
    target = member.task.targets(y)
    if target.is_floating_point():
        target = target.to(next(member.network.parameters()).dtype)
    state = train(
        member.network,
        inputs,
        target,
        member.split,
        member.task,
        replace(options, lr=member.lr),
        report=report,
        batches=partial(own_batches, torch.as_tensor(member.split.train), len(y), options),
    )
    history = [
        (int(row["epoch"]), row["validation_loss"])
        for row in state.history
        if "validation_loss" in row
    ]
    return Outcome(state.best_epoch, state.best_loss, state.epoch, history)


def train_stack(
    members: list[Member],
    inputs: Inputs,
    y: Tensor,
    options: TrainingOptions,
    *,
    report: Callable[[Standing], None] = lambda standing: None,
    checkpoint: Path | None = None,
) -> list[Outcome]:
    """Trains all members at once and leaves their networks with their best weights.

    Args:
        members: of one architecture.
        inputs: the data set, for that architecture.
        y: targets of all graphs, unscaled, on the device of ``inputs``.
        options: how to train; ``lr`` is each member's own.
        report: called before the first epoch (of a run that goes on: the next) and after each
            validation.
        checkpoint: file for the state of the stack, to go on from after an interruption.
    """
    stack = _Stack(members, y, options)
    trust_graphs(stack.base, inputs)
    state = load_state(checkpoint, {}) if checkpoint else None
    if state is not None:
        stack.restore(state)
    done, last_saved = (state.epoch if state else 0), time.monotonic()
    report(stack.standing(done))
    replay = Replay(stack, inputs) if replayable(stack.base, inputs) else None
    for epoch in range(done + 1, options.max_epochs + 1):
        if not len(stack.running):
            break
        with seeded(options.seed, epoch, y.device):
            for index in shared_batches(len(y), options, epoch):
                if replay is not None:
                    replay(index)
                else:
                    stack.step(*inputs.gather(index.to(y.device)), index.to(y.device))
        if epoch % options.validate_every == 0 or epoch == options.max_epochs:
            stack.validate(inputs, epoch)
            report(stack.standing(epoch))
        if checkpoint and time.monotonic() - last_saved > CHECKPOINT_SECONDS:
            save_state(checkpoint, stack.state(epoch), {})
            last_saved = time.monotonic()
    return stack.finish()


class _Stack:
    def __init__(self, members: list[Member], y: Tensor, options: TrainingOptions) -> None:
        device = y.device
        self.members, self.options, self.y = members, options, y
        networks = [member.network for member in members]
        parameters, buffers = stack_module_state(networks)
        trained = {k for k, p in networks[0].named_parameters() if p.requires_grad}
        parameters = {
            k: p.detach().to(device).requires_grad_(k in trained) for k, p in parameters.items()
        }
        self.frozen = {k: p for k, p in parameters.items() if k not in trained}
        self.buffers = {k: b.to(device) for k, b in buffers.items()}
        dtype = next(iter(parameters.values())).dtype
        lr = torch.tensor([member.lr for member in members], device=device, dtype=dtype)
        self.adam = StackedAdam(
            {k: p for k, p in parameters.items() if k in trained},
            lr,
            options.weight_decay,
            options.clip,
        )
        self.base = copy.deepcopy(networks[0]).to("meta")
        for module in self.base.modules():
            if isinstance(module, Scattering):
                module.validate = False  # the data set was checked once
        self.train_mask = masks_of([m.split.train for m in members], len(y), device)
        self.validation_mask = masks_of([m.split.validation for m in members], len(y), device)
        self.scales = scales_of([m.task for m in members], device, dtype)
        self.kind = members[0].task.kind
        self.running = torch.arange(len(members), device=device)
        self.version = 0  # of the tensors: a recorded step is good for one version
        self.best = {k: v.detach().clone() for k, v in {**parameters, **self.buffers}.items()}
        self.outcomes = [Outcome(0, float("inf"), 0, []) for _ in members]

    def outputs(
        self,
        given: tuple[Any, ...],
        powers: Tensor | None,
        mask: Tensor,
        training: bool,
        members: Tensor | None = None,
    ) -> Tensor:
        """Outputs of all running models or some of them, ``[models, graphs, out_channels]``."""
        self.base.train(training)
        parameters, buffers = {**self.adam.parameters, **self.frozen}, self.buffers
        running = self.running
        if members is not None:
            parameters, buffers, running = (
                {k: v[members] for k, v in parameters.items()},
                {k: v[members] for k, v in buffers.items()},
                running[members],
            )

        features, over = (given[0] if len(given) == 1 else None), None  # else given are graphs
        if features is not None and features.dim() == 3:
            features, over = features[running], 0  # every member has its own

        def run(
            parameters: dict[str, Tensor],
            buffers: dict[str, Tensor],
            mask: Tensor,
            features: Tensor | None,
        ) -> Tensor:
            state = {**parameters, **buffers}
            if features is not None:
                return cast(
                    Tensor, functional_call(Head(self.base), inside_head(state), (features, mask))
                )
            known = {"powers": powers, "mask": mask}
            return cast(Tensor, functional_call(self.base, state, given, known))

        mapped = vmap(run, in_dims=(0, 0, 0, over), randomness="different")
        return mapped(parameters, buffers, mask, features)

    def step(
        self,
        given: tuple[Any, ...],
        powers: Tensor | None,
        index: Tensor,
        valid: Tensor | None = None,
    ) -> None:
        """One step of Adam on the graphs ``index``; places that are not ``valid`` count nowhere."""
        self.adam.zero_grad()
        mask = self.train_mask[:, index]
        if valid is not None:
            mask = mask & valid
        out = self.outputs(given, powers, mask, training=True)
        loss, count = self._loss(out, index, mask)
        loss.sum().backward()
        self.adam.step(count > 0)

    @torch.no_grad()
    def validate(self, inputs: Inputs, epoch: int) -> None:
        """Notes validation losses and best weights; lets go of models that have stopped."""
        scale, loss = self._validation(inputs)
        if not bool(loss.isfinite().all()):
            raise TrainingError(
                f"the validation loss of {int((~loss.isfinite()).sum())} of {len(loss)} models is "
                f"not a finite number in epoch {epoch}. Try a smaller learning rate, or clipping"
            )
        better = []
        keep = []
        for place, (member, value) in enumerate(
            zip(self.running.tolist(), loss.tolist(), strict=True)
        ):
            outcome = self.outcomes[member]
            outcome.history.append((epoch, value))
            outcome.epochs = epoch
            if value < outcome.best_loss:
                outcome.best_loss, outcome.best_epoch = value, epoch
                better.append(place)
            if epoch - outcome.best_epoch < self.options.patience:
                keep.append(place)
        places = torch.tensor(better, dtype=torch.long, device=self.y.device)
        for name, tensor in {**self.adam.parameters, **self.buffers}.items():
            kept = tensor.detach()[places]
            if scale is not None and name.rpartition(".")[0] == self.base.output_layer:
                kept = kept * scale[places].to(kept).view(-1, *[1] * (kept.dim() - 1))
            self.best[name][self.running[places]] = kept
        if len(keep) < len(self.running):
            self._keep(torch.tensor(keep, dtype=torch.long, device=self.y.device))

    def _validation(self, inputs: Inputs) -> tuple[Tensor | None, Tensor]:
        """The best scale of the scores if they are calibrated, and the loss, for every model."""
        found: list[tuple[Tensor, ...]] = []  # scale (if any) and loss, of some members each
        groups = together(self.validation_mask)
        for members, needed in groups:
            parts = [
                self.outputs(
                    *inputs.gather(index),
                    self.validation_mask[members][:, index],
                    training=False,
                    members=members,
                )
                for index in needed.split(VALIDATED_AT_ONCE)
            ]
            out, mask = torch.cat(parts, 1), self.validation_mask[members][:, needed]
            terms, weights = self._terms(out, needed, members)
            weights = weights * mask.to(weights.dtype)
            if not calibrates(self.members[0].task, self.base, self.options):
                weighed = (terms * mask.to(terms.dtype)).double()
                found.append((weighed.sum(1) / weights.double().sum(1),))
                continue
            # Every model's own graphs side by side, where models of many kinds are together.
            own = mask.to(torch.int8).argsort(dim=1, descending=True, stable=True)
            own = own[:, : int(mask.sum(1).max())]
            chosen = out.gather(1, own.unsqueeze(-1).expand(-1, -1, out.shape[-1]))
            found.append(calibrate(chosen, self.y[needed][own], weights.gather(1, own)))
        back = torch.cat([members for members, _ in groups]).argsort()
        columns = [torch.cat(column)[back] for column in zip(*found, strict=True)]
        return (columns[0] if len(columns) > 1 else None), columns[-1]

    def state(self, epoch: int) -> State:
        """Everything that the next epoch depends on."""
        adam = self.adam
        own = {"running": self.running, "lr": adam.lr, "steps": adam.steps}
        groups = {
            "parameters": adam.parameters,
            "first": adam.first,
            "second": adam.second,
            "frozen": self.frozen,
            "buffers": self.buffers,
            "best": self.best,
            "own": own,
        }
        return State(epoch, history=[asdict(o) for o in self.outcomes], tensors=groups)

    def restore(self, state: State) -> None:
        """Goes back to a state of :meth:`state`."""
        groups = {
            group: {name: tensor.to(self.y.device) for name, tensor in tensors.items()}
            for group, tensors in state.tensors.items()
        }
        own = groups["own"]
        self._keep(own["running"])
        self.adam.parameters = {k: v.requires_grad_() for k, v in groups["parameters"].items()}
        self.adam.first, self.adam.second = groups["first"], groups["second"]
        self.adam.lr, self.adam.steps = own["lr"], own["steps"]
        self.frozen, self.buffers = groups.get("frozen", {}), groups.get("buffers", {})
        self.best = groups["best"]
        self.outcomes = [
            Outcome(**{**known, "history": [tuple(row) for row in known["history"]]})
            for known in state.history
        ]

    def standing(self, epoch: int) -> Standing:
        """How far the models are after an epoch."""
        models, running = len(self.outcomes), set(self.running.tolist())
        best = sum(o.best_loss for o in self.outcomes) / models
        stopped = [o.epochs for k, o in enumerate(self.outcomes) if k not in running]
        trained = sum(stopped) + epoch * len(running)
        return Standing(epoch, len(running), len(stopped), best, trained)

    def finish(self) -> list[Outcome]:
        """Puts the best weights into the members' networks."""
        for place, member in enumerate(self.members):
            # Buffers that are rebuilt, not saved, are not in a network's state.
            kept = member.network.state_dict()
            member.network.load_state_dict({k: self.best[k][place].cpu() for k in kept})
            member.network.eval()
        return self.outcomes

    def _keep(self, places: Tensor) -> None:
        self.version += 1
        self.adam.keep(places)
        self.frozen = {k: v[places] for k, v in self.frozen.items()}
        self.buffers = {k: v[places] for k, v in self.buffers.items()}
        self.train_mask = self.train_mask[places]
        self.validation_mask = self.validation_mask[places]
        self.scales = {k: v[places] for k, v in self.scales.items()}
        self.running = self.running[places]

    def _terms(
        self, out: Tensor, index: Tensor, members: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        y = self.y[index]
        scales = self.scales
        if members is not None:
            scales = {k: v[members] for k, v in scales.items()}

        def one(out: Tensor, scales: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            names = self.members[0].task.names
            task = Task(self.kind, names, **scales)
            target = task.targets(y)
            return task.terms(out, target.to(out.dtype) if target.is_floating_point() else target)

        terms: tuple[Tensor, Tensor] = vmap(one)(out, scales)
        return terms

    def _loss(self, out: Tensor, index: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        losses, weights = self._terms(out, index)
        inside = mask.to(losses.dtype)
        count = (weights * inside).sum(1)
        return (losses * inside).sum(1) / count.clamp_min(1e-12), count
