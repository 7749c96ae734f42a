from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from legs.nn.batch_norm import GraphBatchNorm


class RBF(nn.Module):
    r"""The radial basis head: batch norm, kernel values at movable anchors, linear.

    .. math::
        h_k = \exp\!\big(-\gamma\, \| \mathrm{BatchNorm}(x) - c_k \|^2\big)

    The anchors :math:`c_k` start as draws from a standard normal distribution, which is what batch
    norm makes of features; :meth:`init_anchors` puts them onto features of training graphs, as the
    paper does, and is called once before training. The paper's :math:`\gamma = 1` makes most kernel
    values underflow (squared distances grow with the number of features), so :math:`\gamma` is
    learned from :math:`1 / \text{in\_channels}` by default.

    Args:
        in_channels: number of graph features.
        out_channels: number of classes or targets.
        num_anchors: number of anchors (default 128).
        gamma: :math:`\gamma`, or where it starts if learned (default: 1 / ``in_channels``).
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
        gamma: float | None = None,
        learn_gamma: bool = True,
    ) -> None:
        super().__init__()
        if gamma is not None and not gamma > 0:
            raise ValueError(f"gamma must be positive; got {gamma}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.initial_gamma = gamma or 1 / in_channels
        self.norm = GraphBatchNorm(in_channels)
        self.anchors = nn.Parameter(torch.empty(num_anchors, in_channels))
        # Learned through its logarithm: it stays positive.
        self.log_gamma = nn.Parameter(torch.empty(()), requires_grad=learn_gamma)
        self.linear = nn.Linear(num_anchors, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws anchors and weights anew."""
        self.norm.reset_parameters()
        nn.init.normal_(self.anchors)
        nn.init.constant_(self.log_gamma, torch.tensor(self.initial_gamma).log().item())
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

    def describe(self) -> dict[str, Any]:
        """The arguments to build such a head again."""
        return {
            "in_channels": self.in_channels,
            "out_channels": self.out_channels,
            "num_anchors": len(self.anchors),
            "gamma": self.initial_gamma,
            "learn_gamma": self.log_gamma.requires_grad,
        }

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """From ``[graphs, in_channels]`` to ``[graphs, out_channels]``.

        ``mask`` (``[graphs]``) names the graphs whose statistics batch norm may see; default all.
        """
        x = self.norm(x, mask)
        # ‖x - c‖² expanded: the differences would be a tensor of graphs × anchors × features. After
        # batch norm the squares are of the size of in_channels, so γ times the rounding is 1e-6.
        squares = x.square().sum(-1, keepdim=True) + self.anchors.square().sum(-1)
        distance = (squares - 2 * x @ self.anchors.T).clamp_min(0)
        out: Tensor = self.linear(torch.exp(-self.log_gamma.exp() * distance))
        return out

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, num_anchors={len(self.anchors)}, "
            f"learn_gamma={self.log_gamma.requires_grad}"
        )
