"""Adam for a stack of models: every model has its learning rate, its step and its clipping."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPS = 1e-8


@dataclass
class StackedAdam:
    r"""Adam over parameters with a leading axis of models, each as if it were alone.

    Args:
        parameters: by name, ``[models, ...]``; updated in place.
        lr: learning rate of each model, ``[models]``.
        weight_decay: of all models.
        clip: largest norm of a model's gradient, or ``None``.

    >>> weights = {"w": torch.zeros(2, 3, requires_grad=True)}
    >>> adam = StackedAdam(weights, torch.tensor([0.1, 0.2]))
    >>> weights["w"].sum().backward()
    >>> adam.step(torch.tensor([True, True]))
    >>> weights["w"][:, 0].detach()
    tensor([-0.1000, -0.2000])
    """

    parameters: dict[str, Tensor]
    lr: Tensor
    weight_decay: float = 0.0
    clip: float | None = None
    steps: Tensor = field(init=False)
    first: dict[str, Tensor] = field(init=False)
    second: dict[str, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = torch.zeros_like(self.lr)
        self.first = {k: torch.zeros_like(v) for k, v in self.parameters.items()}
        self.second = {k: torch.zeros_like(v) for k, v in self.parameters.items()}

    @torch.no_grad()
    def step(self, active: Tensor) -> None:
        """One step of the models under ``active`` (``[models]``); the others do not move."""
        grads = {k: p.grad for k, p in self.parameters.items() if p.grad is not None}
        scale = self._clipping(grads)
        self.steps += active.to(self.steps.dtype)
        steps = self.steps.clamp_min(1)
        size = self.lr / (1 - BETAS[0] ** steps) * active.to(self.lr.dtype)
        root = (1 - BETAS[1] ** steps).sqrt()
        for name, grad in grads.items():
            weight = self.parameters[name]
            if scale is not None:
                grad = grad * _spread(scale, grad)
            if self.weight_decay:
                grad = grad + self.weight_decay * weight
            # In place, and by steps of zero for models at rest: this is all memory traffic.
            moving = _spread(active.to(grad.dtype), grad)
            first, second = self.first[name], self.second[name]
            first.lerp_(grad, (1 - BETAS[0]) * moving)
            second.lerp_(grad.square(), (1 - BETAS[1]) * moving)
            update = second.sqrt().div_(_spread(root, grad)).add_(EPS)
            torch.div(first, update, out=update)
            weight.sub_(update.mul_(_spread(size, grad)))

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def keep(self, models: Tensor) -> None:
        """Goes on with some of the models only; the others cost nothing more."""
        for name, weight in self.parameters.items():
            self.parameters[name] = weight.detach()[models].requires_grad_()
            self.first[name] = self.first[name][models]
            self.second[name] = self.second[name][models]
        self.lr, self.steps = self.lr[models], self.steps[models]

    def _clipping(self, grads: dict[str, Tensor]) -> Tensor | None:
        if self.clip is None:
            return None
        squares = torch.stack([g.flatten(1).square().sum(1) for g in grads.values()]).sum(0)
        # As torch.nn.utils.clip_grad_norm_ does.
        return (self.clip / (squares.sqrt() + 1e-6)).clamp_max(1.0)


def _spread(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))
