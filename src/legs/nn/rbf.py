from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from legs.nn.batch_norm import GraphBatchNorm
from legs.nn.head import Head, arguments

# Largest γ an anchor starts from, in units of 1 / in_channels.
WIDEST = 64.0


class RBF(Head):
    r"""The radial basis head: batch norm, kernel values at movable anchors, linear.

    .. math::
        h_k = \exp\!\big(-\gamma_k\, \| \mathrm{BatchNorm}(x) - c_k \|^2\big)

    The anchors :math:`c_k` start as standard normal draws; :meth:`init_anchors`, called once before
    training, puts them onto features of training graphs, as the paper does. With the paper's
    :math:`\gamma = 1` most kernel values underflow, since squared distances grow with the number of
    features; at :math:`1 / \text{in\_channels}` they are nearly equal for all graphs. Which is best
    depends on the data: by default every anchor learns its own, from a start between the two.

    Args:
        in_channels: number of graph features.
        out_channels: number of classes or targets.
        num_anchors: number of anchors (default 128).
        gamma: :math:`\gamma`, or where it starts if learned: a number for all anchors, or the
            smallest and the largest of a geometric sequence over the anchors (default:
            1 / ``in_channels`` to 64 / ``in_channels``).
        learn_gamma: whether :math:`\gamma` is learned (default ``True``).

    >>> head = RBF(128, 2)
    >>> features = torch.rand(200, 128)
    >>> head.init_anchors(features)
    >>> head(features).shape
    torch.Size([200, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_anchors: int = 128,
        gamma: float | Sequence[float] | None = None,
        learn_gamma: bool = True,
    ) -> None:
        super().__init__(arguments(locals()))
        if gamma is None:
            gamma = (1 / in_channels, WIDEST / in_channels)
        ends = tuple(gamma) if isinstance(gamma, Sequence) else (gamma, gamma)
        if len(ends) != 2 or not all(g > 0 for g in ends):
            raise ValueError(f"gamma must be a positive number, or two; got {gamma}")
        self.initial_gamma = (float(ends[0]), float(ends[1]))
        self.description["gamma"] = list(self.initial_gamma)
        self.norm = GraphBatchNorm(in_channels)
        self.anchors = nn.Parameter(torch.empty(num_anchors, in_channels))
        # Learned through its logarithm: it stays positive.
        self.log_gamma = nn.Parameter(torch.empty(num_anchors), requires_grad=learn_gamma)
        self.linear = nn.Linear(num_anchors, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws anchors and weights again."""
        self.norm.reset_parameters()
        nn.init.normal_(self.anchors)
        first, last = (math.log(gamma) for gamma in self.initial_gamma)
        with torch.no_grad():
            self.log_gamma.copy_(torch.linspace(first, last, len(self.log_gamma)))
        self.linear.reset_parameters()

    @torch.no_grad()
    def init_anchors(self, features: Tensor, generator: torch.Generator | None = None) -> None:
        """Puts the anchors onto normalised features of training graphs, drawn at random.

        Args:
            features: ``[graphs, in_channels]``, of the model's own training graphs only.
            generator: for a repeatable draw.
        """
        if features.dim() != 2 or features.shape[1] != self.in_channels or not len(features):
            raise ValueError(
                f"features must have shape [training graphs, {self.in_channels}]; "
                f"got {list(features.shape)}"
            )
        variance, mean = torch.var_mean(features, dim=0, correction=0)
        count, wanted = len(features), len(self.anchors)
        # With fewer graphs than anchors, every graph serves before one serves again.
        draws = [torch.randperm(count, generator=generator) for _ in range(-(-wanted // count))]
        chosen = features[torch.cat(draws)[:wanted].to(features.device)]
        self.anchors.copy_((chosen - mean) * (variance + self.norm.eps).rsqrt())

    def describe(self) -> dict[str, Any]:  # parameters may have been frozen since
        return {**super().describe(), "learn_gamma": self.log_gamma.requires_grad}

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.norm(x, mask)
        # ‖x - c‖² expanded: the differences would be a tensor of graphs × anchors × features. After
        # batch norm the squares are about in_channels, so γ times the rounding is 1e-6.
        squares = x.square().sum(-1, keepdim=True) + self.anchors.square().sum(-1)
        distance = (squares - 2 * x @ self.anchors.T).clamp_min(0)
        out: Tensor = self.linear(torch.exp(-self.log_gamma.exp() * distance))
        return out

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, num_anchors={len(self.anchors)}, "
            f"learn_gamma={self.log_gamma.requires_grad}"
        )
