from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from legs import functional as fn
from legs.functional.scales import Ordering

DEFAULT_STEPS = 16
Scales = Literal["learned", "dyadic", "infogain"] | Sequence[float] | Sequence[Sequence[float]]


class ScaleSelection(nn.Module):
    r"""Diffusion scales, fixed or learned by :math:`F = \mathrm{softmax}(\Theta)`.

    Args:
        scales: as of :class:`Scattering`, or a list of lists for one set per channel;
            ``"infogain"`` ones are set by :meth:`fix`.
        num_scales: number :math:`J` of scales (default 5; read off a list of numbers).
        steps: number :math:`m` of diffusion steps (default: 16, or the largest scale rounded up).
        ordering: of learned rows, see :func:`legs.functional.select_scales`.

    >>> ScaleSelection("dyadic", num_scales=3)
    ScaleSelection(scales=(1, 2, 4), steps=4)
    >>> ScaleSelection("learned", num_scales=3)
    ScaleSelection(scales=learned, num_scales=3, steps=16, ordering=ordered)
    """

    def __init__(
        self,
        scales: Scales = "learned",
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
        if isinstance(scales, str) and scales not in ("learned", "dyadic", "infogain"):
            raise ValueError(
                'scales must be "learned", "dyadic", "infogain" or increasing numbers; '
                f"got {scales!r}"
            )
        self.learned = scales == "learned"
        self.ordering = ordering
        self.theta: nn.Parameter | None = None
        # Fixed scales follow the module's device and dtype, but are rebuilt, not saved.
        self.fixed: Tensor | None
        self.register_buffer("fixed", None, persistent=False)
        self.initial: tuple[Any, ...] | None = None
        self.num_scales, self.steps = num_scales, steps or max(DEFAULT_STEPS, num_scales)
        if self.learned:
            self.initial = fn.default_scales(num_scales, self.steps)
            self.theta = nn.Parameter(torch.empty(num_scales, self.steps))
        elif scales != "infogain":
            self.fix(fn.dyadic_scales(num_scales) if isinstance(scales, str) else scales, steps)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts learned rows at the default scales, so that they behave nearly like fixed ones."""
        if self.theta is not None:
            assert self.initial is not None
            with torch.no_grad():
                self.theta.copy_(fn.initial_logits(self.initial, self.steps))

    def fix(
        self, scales: Sequence[float] | Sequence[Sequence[float]], steps: int | None = None
    ) -> None:
        """Sets fixed scales: increasing numbers, or such a list for every channel."""
        if self.theta is not None:
            raise ValueError('scales="learned" are not fixed; choose others')
        times: Any = list(scales)
        several = bool(times) and isinstance(times[0], Sequence)
        rows = [fn.check_scales(row, steps) for row in (times if several else [times])]
        if len({len(row) for row in rows}) > 1:
            raise ValueError("every channel must have as many scales as the others")
        self.num_scales = len(rows[0])
        self.steps = steps or math.ceil(max(row[-1] for row in rows))
        self.initial = tuple(rows) if several else rows[0]
        like = torch.empty(()) if self.fixed is None else self.fixed
        self.fixed = fn.cumulative_of_scales(self.initial, self.steps, like.dtype).to(like.device)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        if self.initial and self.fixed is not None:  # not rounded twice
            self.fix(self.initial, self.steps)
        return self

    def forward(self) -> Tensor:
        """The scales in cumulative form, ``[num_scales, steps]``; of channels, where they differ,
        ``[channels, num_scales, steps]``."""
        if self.theta is None:
            if self.fixed is None:
                raise RuntimeError(
                    'scales="infogain" are not set yet: call fit_scales(x, edge_index, …) with the '
                    "signals of training graphs first"
                )
            return self.fixed
        return fn.select_scales(self.theta, self.ordering)

    def extra_repr(self) -> str:
        if not self.learned:
            return f"scales={self.initial or 'infogain'}, steps={self.steps}"
        return (
            f"scales=learned, num_scales={self.num_scales}, steps={self.steps}, "
            f"ordering={self.ordering}"
        )
