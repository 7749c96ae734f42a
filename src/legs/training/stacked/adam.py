"""Adam for a stack of models: every model has its learning rate, its step and its clipping."""

from __future__ import annotations

from collections.abc import Set
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from legs.kernels.gpu import adam, launch

BETAS = (0.9, 0.999)
EPS = 1e-8
# Numbers that kernels read at once: parameters start at multiples of it as long as they can.
ALIGNED = 4


class Block(NamedTuple):
    """Where a parameter lies in the row of a model."""

    start: int
    shape: tuple[int, ...]  # without the axis of models

    @property
    def end(self) -> int:
        """Where the next one starts."""
        return self.start + prod(self.shape)


class StackedAdam:
    r"""Adam over parameters with a leading axis of models, each as if it were alone.

    All parameters of a model lie in one row of one matrix, and so do its moments: a step is a few
    operations, however many parameters there are. ``parameters`` are views into that matrix.

    Args:
        parameters: by name, ``[models, ...]``, where they start from.
        lr: learning rate of each model, ``[models]``.
        weight_decay: of all models.
        clip: largest norm of a model's gradient, or ``None``.

    >>> adam = StackedAdam({"w": torch.zeros(2, 3)}, torch.tensor([0.1, 0.2]))
    >>> adam.step(adam.parameters["w"].sum(), torch.tensor([True, True]))
    >>> adam.parameters["w"][:, 0].detach()
    tensor([-0.1000, -0.2000])
    """

    def __init__(
        self,
        parameters: dict[str, Tensor],
        lr: Tensor,
        weight_decay: float = 0.0,
        clip: float | None = None,
    ) -> None:
        self.lr, self.weight_decay, self.clip = lr, weight_decay, clip
        self.steps = torch.zeros_like(lr)
        self.betas, self.shares = (
            lr.new_tensor(numbers).unsqueeze(-1) for numbers in (BETAS, [1 - b for b in BETAS])
        )
        self.names, self.width = list(parameters), 0
        self.blocks: dict[str, Block] = {}
        sizes = {name: prod(p.shape[1:]) for name, p in parameters.items()}
        for name in sorted(sizes, key=lambda name: sizes[name] % ALIGNED > 0):
            self.blocks[name] = Block(self.width, tuple(parameters[name].shape[1:]))
            self.width = self.blocks[name].end
        self.weights = self._aligned(self._rows(parameters))
        self.first_moments = lr.new_zeros(len(lr), self.width)
        self.second_moments = torch.zeros_like(self.first_moments)
        self.parameters = self._leaves()

    @property
    def first(self) -> dict[str, Tensor]:
        """First moments of the gradients, by parameter."""
        return self.parts(self.first_moments)

    @property
    def second(self) -> dict[str, Tensor]:
        """Second moments of the gradients, by parameter."""
        return self.parts(self.second_moments)

    def parts(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of some rows, ``[models, width]``, by parameter; for example of ``weights``."""
        found = {}
        for name in self.names:
            start, shape = self.blocks[name]
            found[name] = rows[:, start : self.blocks[name].end].view(-1, *shape)
        return found

    def step(self, loss: Tensor, active: Tensor) -> None:
        """One step of the models under ``active`` (``[models]``); the others do not move.

        Args:
            loss: the sum of the models' losses.
            active: which models have a loss.
        """
        leaves = list(self.parameters.values())
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
        grads = dict(zip(self.parameters, found, strict=True))
        with torch.no_grad():
            known = {name: grad for name, grad in grads.items() if grad is not None}
            self._update(self._prepared(self._rows(known), grads.keys() - known), active)

    def keep(self, models: Tensor) -> None:
        """Goes on with some of the models only; the others cost nothing more."""
        self.lr, self.steps = self.lr[models], self.steps[models]
        self.weights = self._aligned(self.weights[models])
        self.first_moments = self.first_moments[models]
        self.second_moments = self.second_moments[models]
        self.parameters = self._leaves()

    def restore(
        self,
        parameters: dict[str, Tensor],
        first: dict[str, Tensor],
        second: dict[str, Tensor],
        lr: Tensor,
        steps: Tensor,
    ) -> None:
        """Goes on from other parameters and moments, of as many models."""
        self.lr, self.steps = lr, steps
        self.weights = self._aligned(self._rows(parameters))
        self.first_moments, self.second_moments = self._rows(first), self._rows(second)
        self.parameters = self._leaves()

    def _leaves(self) -> dict[str, Tensor]:
        return {name: part.requires_grad_() for name, part in self.parts(self.weights).items()}

    def _rows(self, parts: dict[str, Tensor]) -> Tensor:
        """Parts of parameters side by side, a row a model; zero where there is no part."""
        rows = [
            parts[name].detach().reshape(len(self.lr), -1)
            if name in parts
            else self.lr.new_zeros(len(self.lr), prod(block.shape))
            for name, block in self.blocks.items()
        ]
        return torch.cat(rows, dim=1)

    def _aligned(self, rows: Tensor) -> Tensor:
        """A copy whose every row starts at an address that can be read in large pieces."""
        wide = rows.new_empty(len(rows), self.width + -self.width % ALIGNED)
        return wide[:, : self.width].copy_(rows)

    def _prepared(self, grad: Tensor, unused: Set[str]) -> Tensor:
        """Clipped, and with the decay of the weights."""
        if self.clip is not None:
            # As torch.nn.utils.clip_grad_norm_ does.
            norm = grad.square().sum(1, keepdim=True).sqrt()
            grad = grad * (self.clip / (norm + 1e-6)).clamp_max(1.0)
        if self.weight_decay:
            grad = grad + self.weight_decay * self.weights
            for name in unused:
                self.parts(grad)[name].zero_()
        return grad

    def _update(self, grad: Tensor, active: Tensor) -> None:
        self.steps += active
        if launch.applies(grad):
            moments = (self.first_moments, self.second_moments)
            known = (grad, self.lr, self.steps, active, self.weights, *moments)
            adam.adam_step(*known, BETAS, EPS)
            return
        # In place, and by steps of zero for models at rest: this is all memory traffic.
        rest = 1 - self.betas ** self.steps.clamp_min(1)
        size = (self.lr / rest[0] * active).unsqueeze(-1)
        root = rest[1].sqrt().unsqueeze(-1)
        moving = (self.shares * active).unsqueeze(-1)
        self.first_moments.lerp_(grad, moving[0])
        self.second_moments.lerp_(grad.square(), moving[1])
        update = self.second_moments.sqrt().div_(root).add_(EPS)
        torch.div(self.first_moments, update, out=update)
        self.weights.sub_(update.mul_(size))
