"""Adam for a stack of models: every model has its learning rate, its step and its clipping."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPS = 1e-8
# Numbers that kernels read at once: parameters start at multiples of it, those that can.
ALIGNED = 4


class StackedAdam:
    r"""Adam over parameters with a leading axis of models, each as if it were alone.

    All parameters of a model lie in one row of one matrix, and so do its moments: a step is a few
    operations, however many parameters there are. ``parameters`` are views into that matrix, by
    name, ``[models, ...]``; ``lr`` is ``[models]``, and ``clip`` the largest norm of a gradient.
    ``decoupled`` is AdamW; ``own_lr`` are learning rates of parameters by name; ``factor``, a
    tensor, multiplies all rates.

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
        decoupled: bool = False,
        own_lr: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.weight_decay, self.clip, self.decoupled = weight_decay, clip, decoupled
        self.own_lr, self.factor = dict(own_lr), lr.new_ones(())
        self.shapes = {name: p.shape[1:] for name, p in parameters.items()}
        self.sizes = {name: prod(shape) for name, shape in self.shapes.items()}
        self.order = sorted(parameters, key=lambda name: self.sizes[name] % ALIGNED > 0)
        weights = self._rows(parameters, lr)
        moments = (torch.zeros_like(weights), torch.zeros_like(weights))
        self.restore(weights, *moments, lr, torch.zeros_like(lr))

    def parts(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of some rows, ``[models, width]``, by parameter; for example of ``weights``."""
        columns = rows.split([self.sizes[name] for name in self.order], dim=1)
        by_name = dict(zip(self.order, columns, strict=True))
        return {name: by_name[name].view(-1, *shape) for name, shape in self.shapes.items()}

    def step(self, loss: Tensor, active: Tensor) -> None:
        """One step of the models under ``active`` (``[models]``) on the sum of their losses."""
        grads = torch.autograd.grad(loss, list(self.parameters.values()), allow_unused=True)
        used = {k: g for k, g in zip(self.parameters, grads, strict=True) if g is not None}
        with torch.no_grad():
            grad = self._rows(used, self.lr)
            if self.clip is not None:  # as torch.nn.utils.clip_grad_norm_ does
                norm = grad.square().sum(1, keepdim=True).sqrt()
                grad = grad * (self.clip / (norm + 1e-6)).clamp_max(1.0)
            if self.weight_decay and not self.decoupled:
                grad = grad + self.weight_decay * self.weights
                for name in self.parameters.keys() - used.keys():
                    self.parts(grad)[name].zero_()
            self._update(grad, active)

    def keep(self, models: Tensor) -> None:
        """Continues with some of the models only; the others cost nothing more."""
        self.restore(*(row[models] for row in self.state()))

    def state(self) -> tuple[Tensor, ...]:
        """Weights, two moments, learning rates and steps, each by model."""
        return self.weights, self.first_moments, self.second_moments, self.lr, self.steps

    def restore(
        self, weights: Tensor, first: Tensor, second: Tensor, lr: Tensor, steps: Tensor
    ) -> None:
        """Continues from a :meth:`state`, of as many models as ``lr`` has."""
        # Every row of the weights starts at an address that can be read in large pieces.
        models, width = weights.shape
        wide = weights.new_empty(models, width + -width % ALIGNED)
        self.weights = wide[:, :width].copy_(weights)
        self.first_moments, self.second_moments, self.lr, self.steps = first, second, lr, steps
        self.rates = lr.unsqueeze(-1)
        if self.own_lr:
            self.rates = self.rates.expand(models, width).clone()
            for name, part in self.parts(self.rates).items():
                if name in self.own_lr:
                    part.fill_(self.own_lr[name])
        parts = self.parts(self.weights)
        self.parameters = {name: part.requires_grad_() for name, part in parts.items()}

    def _rows(self, parts: dict[str, Tensor], lr: Tensor) -> Tensor:
        """Parts of parameters side by side, one row per model; zero where there is no part."""
        rows = [
            parts[name].detach().reshape(len(lr), -1)
            if name in parts
            else lr.new_zeros(len(lr), self.sizes[name])
            for name in self.order
        ]
        return torch.cat(rows, dim=1)

    def _update(self, grad: Tensor, active: Tensor) -> None:
        self.steps += active
        # In place, and by steps of zero for models at rest: this is all memory traffic.
        moving = active.to(grad.dtype).unsqueeze(-1)
        rate = self.rates * self.factor * moving
        if self.decoupled and self.weight_decay:
            self.weights.mul_(1 - self.weight_decay * rate)
        moments = (self.first_moments, self.second_moments)
        first, second = (1 - beta ** self.steps.clamp_min(1).unsqueeze(-1) for beta in BETAS)
        for moment, power, beta in zip(moments, (grad, grad.square()), BETAS, strict=True):
            moment.lerp_(power, (1 - beta) * moving)
        update = moments[1].sqrt().div_(second.sqrt()).add_(EPS)
        torch.div(moments[0], update, out=update)
        self.weights.sub_(update.mul_(rate / first))
