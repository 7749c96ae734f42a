from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from legs import functional as fn
from legs.functional.scales import Ordering

DEFAULT_STEPS = 16


class ScaleSelection(nn.Module):
    r"""Diffusion scales, fixed or learned by :math:`F = \mathrm{softmax}(\Theta)`.

    Args:
        scales: ``"learned"`` (default), ``"dyadic"`` for :math:`1, 2, 4, \dots`, or increasing
            integers.
        num_scales: number :math:`J` of scales (default 5; read off a list of integers).
        steps: number :math:`m` of diffusion steps (default: 16, or the largest scale).
        ordering: of learned rows (default ``"ordered"``); see
            :func:`legs.functional.select_scales`.

    >>> ScaleSelection("dyadic", num_scales=3)
    ScaleSelection(scales=(1, 2, 4), steps=4)
    >>> ScaleSelection("learned", num_scales=3)
    ScaleSelection(scales=learned, num_scales=3, steps=16, ordering=ordered)
    """

    def __init__(
        self,
        scales: Literal["learned", "dyadic"] | Sequence[int] = "learned",
        num_scales: int = 5,
        steps: int | None = None,
        ordering: Ordering = "ordered",
    ) -> None:
        super().__init__()
        if ordering not in ("ordered", "softmax"):
            raise ValueError(f'ordering must be "ordered" or "softmax"; got {ordering!r}')
        if steps is not None and steps < 1:
            raise ValueError(f"steps must be at least 1; got {steps}")
        if num_scales < 1:
            raise ValueError(f"num_scales must be at least 1; got {num_scales}")
        if isinstance(scales, str) and scales not in ("learned", "dyadic"):
            raise ValueError(
                f'scales must be "learned", "dyadic" or increasing integers; got {scales!r}'
            )
        self.learned = scales == "learned"
        self.ordering = ordering
        self.theta: nn.Parameter | None = None
        if self.learned:
            self.steps = steps or max(DEFAULT_STEPS, num_scales)
            self.initial = fn.default_scales(num_scales, self.steps)
        else:
            fixed_scales = fn.dyadic_scales(num_scales) if isinstance(scales, str) else scales
            self.initial = fn.check_scales(fixed_scales, steps)
            self.steps = steps or self.initial[-1]
        self.num_scales = len(self.initial)
        # Fixed scales follow the module's device and dtype, but are rebuilt, not saved.
        self.fixed: Tensor
        fixed = None if self.learned else fn.cumulative_of_scales(self.initial, self.steps)
        self.register_buffer("fixed", fixed, persistent=False)
        if self.learned:
            self.theta = nn.Parameter(torch.empty(self.num_scales, self.steps))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts learned rows at the default scales, so that they behave nearly like fixed ones."""
        if self.theta is not None:
            with torch.no_grad():
                self.theta.copy_(fn.initial_logits(self.initial, self.steps))

    def forward(self) -> Tensor:
        """The scales in cumulative form, ``[num_scales, steps]``."""
        if self.theta is None:
            return self.fixed
        return fn.select_scales(self.theta, self.ordering)

    def extra_repr(self) -> str:
        if not self.learned:
            return f"scales={self.initial}, steps={self.steps}"
        return (
            f"scales=learned, num_scales={self.num_scales}, steps={self.steps}, "
            f"ordering={self.ordering}"
        )
