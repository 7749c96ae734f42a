"""Heads: from graph features to predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn.inits import reset

from legs.nn.batch_norm import GraphBatchNorm

# Largest γ an anchor starts from, in units of 1 / in_channels.
WIDEST = 64.0


def arguments(scope: dict[str, Any], more: str = "scattering") -> dict[str, Any]:
    """The arguments of ``__init__``, from ``locals()`` at its start; ``more`` are by keyword."""
    options = {name: value for name, value in scope.items() if name not in ("self", "__class__")}
    by_keyword = options.pop(more, {})
    return {**options, **by_keyword}


class Head(nn.Module):
    """Base of the heads, from graph features to predictions, which know how to be built again."""

    description: dict[str, Any]

    def describe(self) -> dict[str, Any]:
        """The arguments to build such a head again, as JSON values."""
        return dict(self.description)

    def reset_parameters(self) -> None:
        """Draws all weights again."""
        for child in self.children():
            reset(child)


class FCN(Head):
    """The fully connected head: batch norm, linear, leaky ReLU, linear.

    Args:
        in_channels: number of graph features.
        out_channels: number of classes or targets.
        hidden_channels: width (default 128).
        dropout: after the activation (default 0).

    >>> FCN(128, 2)(torch.rand(4, 128)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self, in_channels: int, out_channels: int, hidden_channels: int = 128, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.description = arguments(locals())
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.norm = GraphBatchNorm(in_channels)
        self.hidden = nn.Linear(in_channels, hidden_channels)
        self.activation = nn.LeakyReLU()
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """From ``[graphs, in_channels]`` to ``[graphs, out_channels]``.

        ``mask`` (``[graphs]``): the graphs whose statistics batch norm may see; default all.
        """
        hidden = self.activation(self.hidden(self.norm(x, mask)))
        out: Tensor = self.out(self.dropout(hidden))
        return out


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
        super().__init__()
        self.description = arguments(locals())
        if gamma is None:
            gamma = (1 / in_channels, WIDEST / in_channels)
        ends = tuple(gamma) if isinstance(gamma, Sequence) else (gamma, gamma)
        if len(ends) != 2 or not all(g > 0 for g in ends):
            raise ValueError(f"gamma must be a positive number, or two; got {gamma}")
        self.in_channels = in_channels
        self.out_channels = out_channels
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
        """From ``[graphs, in_channels]`` to ``[graphs, out_channels]``.

        ``mask`` (``[graphs]``): the graphs whose statistics batch norm may see; default all.
        """
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


class Attention(Head):
    """The attention head: a token for each scattering path, one self-attention layer, then FCN.

    Features are batch-normalised; a token is the features of one path (its channels × moments),
    projected to ``token_channels``, plus a learned embedding of the path. Residual connection and
    layer norm follow.

    Args:
        in_channels: number of graph features.
        out_channels: number of classes or targets.
        num_paths: number of scattering paths (``scattering.num_paths``); divides ``in_channels``.
        token_channels: width of a token (default 64).
        heads: number of attention heads (default 4).
        hidden_channels: width of the fully connected head (default 128).
        dropout: in attention and head (default 0).

    >>> Attention(128, 2, num_paths=16)(torch.rand(4, 128)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_paths: int,
        token_channels: int = 64,
        heads: int = 4,
        hidden_channels: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.description = arguments(locals())
        if in_channels % num_paths:
            raise ValueError(
                f"in_channels must be a multiple of num_paths; got {in_channels} and {num_paths}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_paths = num_paths
        self.norm = GraphBatchNorm(in_channels)
        self.project = nn.Linear(in_channels // num_paths, token_channels)
        self.place = nn.Embedding(num_paths, token_channels)
        self.attention = nn.MultiheadAttention(token_channels, heads, dropout, batch_first=True)
        self.token_norm = nn.LayerNorm(token_channels)
        self.head = FCN(num_paths * token_channels, out_channels, hidden_channels, dropout)

    def reset_parameters(self) -> None:
        """Draws all weights again."""
        for module in (self.norm, self.project, self.place, self.token_norm, self.head):
            module.reset_parameters()
        self.attention._reset_parameters()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """From ``[graphs, in_channels]`` to ``[graphs, out_channels]``.

        ``mask`` (``[graphs]``): the graphs whose statistics batch norm may see; default all.
        """
        features = self.norm(x, mask).unflatten(-1, (self.num_paths, -1))
        tokens = self.project(features) + self.place.weight
        out: Tensor = self.head(self.token_norm(tokens + self._attend(tokens)).flatten(1), mask)
        return out

    def _attend(self, tokens: Tensor) -> Tensor:
        """As PyTorch's layer, whose fused kernels for GPUs fail under vmap."""
        layer = self.attention
        each = F.linear(tokens, layer.in_proj_weight, layer.in_proj_bias)
        # [graphs, heads, tokens, channels of a head]
        query, key, value = each.unflatten(-1, (3, layer.num_heads, -1)).transpose(1, 3).unbind(2)
        scores = query @ key.transpose(-1, -2) / layer.head_dim**0.5
        weights = F.dropout(scores.softmax(-1), layer.dropout, self.training)
        joined: Tensor = layer.out_proj((weights @ value).transpose(1, 2).flatten(2))
        return joined
