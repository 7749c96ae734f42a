"""Many models at once: folds, seeds and learning rates as a leading axis of the parameters.

The models share architecture, data and batches; each has its own training graphs (a mask in the
loss and in batch norm), its own scale of targets, early stopping and best weights. One after
another they end with the same weights (:func:`train_single`): a batch is the same cut of the same
permutation, only without the graphs that a model must not see.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import stack_module_state

from legs.data.splits import Split
from legs.models import Network
from legs.training import loop
from legs.training.calibration import calibrate
from legs.training.checkpoint import State, load_state, save_state
from legs.training.inputs import Inputs, Keywords
from legs.training.loop import CHECKPOINT_SECONDS, Report, TrainingError
from legs.training.options import TrainingOptions
from legs.training.stacked.adam import StackedAdam
from legs.training.stacked.loss import StackedLoss
from legs.training.stacked.mapped import Mapped, masks_of
from legs.training.stacked.replay import Replay, replayable
from legs.training.task import Task


class Member(NamedTuple):
    """One model of a stack."""

    network: Network  # initialized from its own training graphs
    split: Split
    task: Task  # scaled by its own training graphs
    lr: float


class Standing(NamedTuple):
    """How far models are that are trained together."""

    epoch: int  # of those that run; 0 where unknown
    running: int  # models in training
    stopped: int  # models whose training has ended
    best: float  # mean of the best validation losses so far; infinite before the first


def shared_batches(graphs: int, options: TrainingOptions, epoch: int) -> tuple[Tensor, ...]:
    """The batches of an epoch, the same for all models."""
    return loop.random_batches(torch.arange(graphs), options, epoch)


def own_batches(mask: Tensor, options: TrainingOptions, epoch: int) -> list[Tensor]:
    """Of the shared batches of an epoch, what one model sees: graphs under its mask."""
    batches = (index[mask[index]] for index in shared_batches(len(mask), options, epoch))
    return [index for index in batches if len(index)]


def train_single(
    member: Member,
    inputs: Inputs,
    y: Tensor,
    options: TrainingOptions,
    report: Report = lambda row: None,
) -> State:
    """Trains one member alone, on the batches it would see in a stack, to the same weights."""
    network, split, task, lr = member
    mask, own = masks_of([split.train], len(y))[0], replace(options, lr=lr)
    batches = partial(own_batches, mask, options)
    return loop.train(network, inputs, y, split, task, own, report=report, batches=batches)


def train_stack(
    members: list[Member],
    inputs: Inputs,
    y: Tensor,
    options: TrainingOptions,
    *,
    report: Callable[[Standing], None] = lambda standing: None,
    checkpoint: Path | None = None,
    follow: Callable[[float], None] = lambda share: None,
) -> list[State]:
    """Trains members of one architecture at once; leaves their networks with their best weights.

    ``y`` are unscaled targets of all graphs, on the device of ``inputs``. ``report`` is called
    before the first epoch and after each validation, ``follow`` with the share of the epochs that
    are done after each. A stack resumes from its ``checkpoint``.
    """
    stack = Stack(members, inputs, y, options)
    state = load_state(checkpoint, {}) if checkpoint else None
    if state is not None:
        stack.restore(state)
    done, last_saved = (state.epoch if state else 0), time.monotonic()
    report(stack.standing(done))
    step: Callable[[Tensor], None] = Replay(stack, inputs) if replayable(inputs) else stack.step_on
    with loop.matrix_products(options):
        for epoch in range(done + 1, options.max_epochs + 1):
            if not len(stack.running):
                break
            stack.adam.factor.fill_(options.rate_factor(epoch))
            with loop.seeded(options.seed, epoch, y.device):
                for index in shared_batches(len(y), options, epoch):
                    step(index)
            if epoch % options.validate_every == 0 or epoch == options.max_epochs:
                stack.validate(epoch)
                report(stack.standing(epoch))
            follow(epoch / options.max_epochs)
            if checkpoint and time.monotonic() - last_saved > CHECKPOINT_SECONDS:
                save_state(checkpoint, stack.state(epoch), {})
                last_saved = time.monotonic()
    return stack.finish()


class Stack:
    """The models of :func:`train_stack` while they are trained."""

    def __init__(
        self, members: list[Member], inputs: Inputs, y: Tensor, options: TrainingOptions
    ) -> None:
        device, networks = y.device, [member.network for member in members]
        self.members, self.options, self.y = members, options, y
        parameters, buffers = stack_module_state(networks)
        learned = {k for k, p in networks[0].named_parameters() if p.requires_grad}
        state = {k: t.detach().to(device) for k, t in {**parameters, **buffers}.items()}
        self.fixed = {k: t for k, t in state.items() if k not in learned}  # buffers too
        dtype = state[next(iter(parameters))].dtype
        lr = torch.tensor([member.lr for member in members], device=device, dtype=dtype)
        trained = {k: t for k, t in state.items() if k in learned}
        rate = options.scale_lr
        rates = {name: rate for name in trained if rate is not None and loop.is_scale(name)}
        adamw = options.optimizer == "adamw"
        self.adam = StackedAdam(trained, lr, options.weight_decay, options.clip, adamw, rates)
        self.network = Mapped(networks[0], inputs)
        self.train_mask = masks_of([m.split.train for m in members], len(y)).to(device, dtype)
        self.validation_mask = masks_of([m.split.validation for m in members], len(y)).to(device)
        self.loss = StackedLoss([m.task for m in members], y, dtype)
        self.running = torch.arange(len(members), device=device)
        self.version = 0  # of the tensors: a recorded step is good for one version
        self.best = {k: t.clone() for k, t in state.items()}
        self.outcomes = [State() for _ in members]

    def step_on(self, index: Tensor) -> None:
        """One step on the graphs ``index``."""
        index = index.to(self.y.device, non_blocking=True)
        self.step(*self.network.inputs.gather(index), index)

    def step(
        self, arguments: Any, keywords: Keywords, index: Tensor, valid: Tensor | None = None
    ) -> None:
        """One step of Adam on the graphs ``index``; places that are not ``valid`` count nowhere."""
        mask = self.train_mask[:, index]
        if valid is not None:
            mask = mask * valid
        state = {**self.adam.parameters, **self.fixed}
        out = self.network(state, arguments, keywords, mask, True, self.running)
        loss, count = self.loss.total(out, index, mask)
        self.adam.step(loss, count > 0)

    @torch.no_grad()
    def validate(self, epoch: int) -> None:
        """Keeps the best weights and losses; drops models that have stopped."""
        scale, loss = self._validation()
        if not bool(loss.isfinite().all()):
            raise TrainingError(
                f"the validation loss of {int((~loss.isfinite()).sum())} of {len(loss)} models is "
                f"not finite in epoch {epoch}. Try a smaller learning rate, or clipping"
            )
        better, keep = [], []
        for model, value in zip(self.running.tolist(), loss.tolist(), strict=True):
            outcome = self.outcomes[model]
            outcome.epoch = epoch
            better.append(value < outcome.best_loss)
            if better[-1]:
                outcome.best_loss, outcome.best_epoch = value, epoch
            keep.append(epoch - outcome.best_epoch < self.options.patience)
        places = torch.tensor(better, device=self.y.device).nonzero().flatten()
        for name, tensor in {**self.adam.parameters, **self.fixed}.items():
            best = tensor.detach()[places]
            if name.rpartition(".")[0] == self.network.base.output_layer:
                best = best * scale[places].to(best).view(-1, *[1] * (best.dim() - 1))
            self.best[name][self.running[places]] = best
        if not all(keep):
            self._keep(torch.tensor(keep, device=self.y.device).nonzero().flatten())

    def _validation(self) -> tuple[Tensor, Tensor]:
        """The best scale of the scores, 1 unless they are calibrated, and the loss, by model."""
        calibrated = loop.calibrates(self.members[0].task, self.network.base, self.options)
        scale, loss = self.y.new_ones(2, len(self.running), dtype=torch.float64)
        group = torch.unique(self.validation_mask, dim=0, return_inverse=True)[1]
        if self.y.is_cuda:  # a pass costs more there than graphs that some models do not need
            group.zero_()
        for number in group.unique():
            models = (group == number).nonzero().flatten()
            graphs = self.validation_mask[models].any(0).nonzero().flatten()
            mask = self.validation_mask[models][:, graphs]
            state = self.adam.parts(self.adam.weights[models])
            state |= {k: v[models] for k, v in self.fixed.items()}
            out = self.network.evaluate(state, graphs, self.running[models])
            losses, weights = self.loss.terms(out, graphs, models)
            weights = weights * mask
            if not calibrated:
                loss[models] = (losses * mask).double().sum(1) / weights.double().sum(1)
                continue
            # Every model's own graphs side by side, filled up with graphs of weight zero.
            own = mask.to(torch.int8).argsort(dim=1, descending=True, stable=True)
            own = own[:, : int(mask.sum(1).max())]
            scores = out.gather(1, own.unsqueeze(-1).expand(-1, -1, out.shape[-1]))
            best = calibrate(scores, self.y[graphs][own], weights.gather(1, own))
            scale[models], loss[models] = best
        return scale, loss

    def state(self, epoch: int) -> State:
        """Everything that the next epoch depends on."""
        adam = {str(number): row for number, row in enumerate(self.adam.state())}
        own = {"running": self.running}
        groups = {"adam": adam, "fixed": self.fixed, "best": self.best, "own": own}
        names = ("epoch", "best_epoch", "best_loss")
        history = [{name: getattr(one, name) for name in names} for one in self.outcomes]
        return State(epoch, history=history, tensors=groups)

    def restore(self, state: State) -> None:
        """Goes back to a state of :meth:`state`."""
        groups = {
            name: {key: tensor.to(self.y.device) for key, tensor in tensors.items()}
            for name, tensors in state.tensors.items()
        }
        self._keep(groups["own"]["running"])
        self.adam.restore(*(row for _, row in sorted(groups["adam"].items())))
        self.fixed |= groups.get("fixed", {})
        self.best |= groups["best"]
        self.outcomes = [State(**row) for row in state.history]

    def standing(self, epoch: int) -> Standing:
        """How far the models are after an epoch."""
        models, running = len(self.outcomes), len(self.running)
        best = sum(o.best_loss for o in self.outcomes) / models
        return Standing(epoch, running, models - running, best)

    def finish(self) -> list[State]:
        """Puts the best weights into the members' networks."""
        best = {name: tensor.cpu() for name, tensor in self.best.items()}
        for place, member in enumerate(self.members):
            # Buffers that are rebuilt, not saved, are not in a network's state.
            names = member.network.state_dict()
            member.network.load_state_dict({name: best[name][place] for name in names})
            member.network.eval()
        return self.outcomes

    def _keep(self, places: Tensor) -> None:
        self.version += 1
        self.adam.keep(places)
        self.loss.keep(places)
        self.fixed = {k: v[places] for k, v in self.fixed.items()}
        rows = (self.train_mask, self.validation_mask, self.running)
        self.train_mask, self.validation_mask, self.running = (row[places] for row in rows)
