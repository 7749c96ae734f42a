from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

LEARNED_START = 0.55


class LazyWalk(nn.Module):
    r"""The laziness of the walk :math:`P_\alpha = \alpha I + (1 - \alpha) W D^{-1}`.

    All guarantees need the walk's spectrum :math:`[2\alpha - 1, 1]` to be non-negative. A fixed
    :math:`\alpha` below ½ is an error; a learned one is :math:`\alpha = ½ + ½\,\sigma(a)`, which
    cannot leave (½, 1).

    Args:
        in_channels: number of channels of the signals.
        laziness: :math:`\alpha`, fixed or to start from (default 0.5). A learned one cannot start
            at ½ itself and starts at 0.55 then.
        learn: ``False`` (default), ``True`` for one learned value, or ``"channel"`` for one per
            channel.

    >>> LazyWalk(3, learn="channel").laziness
    tensor([0.5500, 0.5500, 0.5500], grad_fn=<AddBackward0>)
    """

    def __init__(
        self, in_channels: int, laziness: float = 0.5, learn: bool | Literal["channel"] = False
    ) -> None:
        super().__init__()
        if not 0.5 <= laziness < 1:
            raise ValueError(
                f"laziness must be at least 0.5 and below 1 (below 0.5 the filter bank loses its "
                f"guarantees); got {laziness}"
            )
        if learn not in (False, True, "channel"):
            raise ValueError(f'learn_laziness must be False, True or "channel"; got {learn!r}')
        self.learn = learn
        self.initial = LEARNED_START if learn and laziness == 0.5 else laziness
        self.raw_laziness: nn.Parameter | None = None
        if learn:
            shape = (in_channels,) if learn == "channel" else ()
            self.raw_laziness = nn.Parameter(torch.empty(shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets a learned laziness."""
        if self.raw_laziness is not None:
            share = 2 * self.initial - 1
            nn.init.constant_(self.raw_laziness, math.log(share / (1 - share)))

    @property
    def laziness(self) -> Tensor | float:
        r"""The value of :math:`\alpha`: a number if fixed, else ``[]`` or ``[channels]``."""
        if self.raw_laziness is None:
            return self.initial
        return 0.5 + 0.5 * torch.sigmoid(self.raw_laziness)

    def extra_repr(self) -> str:
        return f"laziness={self.initial}, learn={self.learn!r}"
