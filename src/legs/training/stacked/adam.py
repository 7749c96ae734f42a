"""Adam for a stack of models: every model has its learning rate, its step and its clipping."""

from __future__ import annotations

from collections.abc import Container
from math import prod

import torch
from torch import Tensor

from legs.kernels.gpu import launch, stacked

BETAS = (0.9, 0.999)
EPS = 1e-8
# Numbers that kernels read at once: parameters start at multiples of it, those that can.
ALIGNED = 4


class StackedAdam:
    r"""Adam over parameters with a leading axis of models, each as if it were alone.

    All parameters of a model lie in one row of one matrix, and so do its moments: a step is a few
    operations, however many parameters there are. ``parameters`` are views into that matrix, by
    name, ``[models, ...]``; ``lr`` is ``[models]``, and ``clip`` the largest norm of a gradient.

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
        self.betas = lr.new_tensor(BETAS).unsqueeze(-1)
        self.shares = lr.new_tensor([1 - beta for beta in BETAS]).unsqueeze(-1)
        self.shapes = {name: p.shape[1:] for name, p in parameters.items()}
        self.order = sorted(parameters, key=lambda name: prod(self.shapes[name]) % ALIGNED > 0)
        self.sizes = [prod(self.shapes[name]) for name in self.order]
        self.width = sum(self.sizes)
        first, second = (lr.new_zeros(len(lr), self.width) for _ in range(2))
        self._set(self._rows(parameters), first, second, lr, torch.zeros_like(lr))

    def parts(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of some rows, ``[models, width]``, by parameter; for example of ``weights``."""
        columns = dict(zip(self.order, rows.split(self.sizes, dim=1), strict=True))
        return {name: columns[name].view(-1, *shape) for name, shape in self.shapes.items()}

    def step(self, loss: Tensor, active: Tensor) -> None:
        """One step of the models under ``active`` (``[models]``) on the sum of their losses."""
        grads = torch.autograd.grad(loss, list(self.parameters.values()), allow_unused=True)
        by_name = {k: g for k, g in zip(self.parameters, grads, strict=True) if g is not None}
        with torch.no_grad():
            self._update(self._prepared(self._rows(by_name), by_name), active)

    def keep(self, models: Tensor) -> None:
        """Continues with some of the models only; the others cost nothing more."""
        rows = (self.weights, self.first_moments, self.second_moments, self.lr, self.steps)
        self._set(*(row[models] for row in rows))

    def restore(self, groups: list[dict[str, Tensor]], lr: Tensor, steps: Tensor) -> None:
        """Continues from other parameters and two moments, of as many models."""
        weights, first, second = map(self._rows, groups)
        self._set(weights, first, second, lr, steps)

    def _set(
        self, weights: Tensor, first: Tensor, second: Tensor, lr: Tensor, steps: Tensor
    ) -> None:
        # Every row of the weights starts at an address that can be read in large pieces.
        wide = weights.new_empty(len(weights), self.width + -self.width % ALIGNED)
        self.weights = wide[:, : self.width].copy_(weights)
        self.first_moments, self.second_moments, self.lr, self.steps = first, second, lr, steps
        parts = self.parts(self.weights)
        self.parameters = {name: part.requires_grad_() for name, part in parts.items()}

    def _rows(self, parts: dict[str, Tensor]) -> Tensor:
        """Parts of parameters side by side, one row per model; zero where there is no part."""
        models = len(self.lr)
        rows = [
            parts[name].detach().reshape(models, -1)
            if name in parts
            else self.lr.new_zeros(models, size)
            for name, size in zip(self.order, self.sizes, strict=True)
        ]
        return torch.cat(rows, dim=1)

    def _prepared(self, grad: Tensor, used: Container[str]) -> Tensor:
        """Clipped, and with the decay of the weights."""
        if self.clip is not None:
            # As torch.nn.utils.clip_grad_norm_ does.
            norm = grad.square().sum(1, keepdim=True).sqrt()
            grad = grad * (self.clip / (norm + 1e-6)).clamp_max(1.0)
        if self.weight_decay:
            grad = grad + self.weight_decay * self.weights
            for name, part in self.parts(grad).items():
                if name not in used:
                    part.zero_()
        return grad

    def _update(self, grad: Tensor, active: Tensor) -> None:
        self.steps += active
        if launch.applies(grad):
            moments = (self.first_moments, self.second_moments)
            tensors = (grad, self.lr, self.steps, active, self.weights)
            stacked.adam_step(*tensors, moments, BETAS, EPS)
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
