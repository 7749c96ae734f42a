from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from legs.nn.batch_norm import GraphBatchNorm
from legs.nn.fcn import FCN
from legs.nn.head import Head, arguments


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

    >>> import torch
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
        super().__init__(arguments(locals()))
        if in_channels % num_paths:
            raise ValueError(
                f"in_channels must be a multiple of num_paths; got {in_channels} and {num_paths}"
            )
        self.num_paths = num_paths
        self.norm = GraphBatchNorm(in_channels)
        self.project = nn.Linear(in_channels // num_paths, token_channels)
        self.place = nn.Embedding(num_paths, token_channels)
        self.attention = nn.MultiheadAttention(token_channels, heads, dropout, batch_first=True)
        self.token_norm = nn.LayerNorm(token_channels)
        self.head = FCN(num_paths * token_channels, out_channels, hidden_channels, dropout)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.attention._reset_parameters()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
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
