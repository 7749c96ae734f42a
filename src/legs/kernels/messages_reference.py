"""Message passing in plain PyTorch: what the kernels compute, everywhere and twice differentiable.

All of it takes states ``[..., nodes, channels]`` and maps over models.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def aggregate(
    h: Tensor,
    row: Tensor,
    col: Tensor,
    weight: Tensor | None,
    pre: Tensor | None,
    post: Tensor | None,
    own: Tensor | float,
    side: bool,
) -> Tensor:
    """See :func:`legs.kernels.messages.aggregate`."""
    beside = None
    if side:
        h, beside = h.chunk(2, dim=-1)
    if pre is not None:
        h = h * pre.unsqueeze(-1)
    sent = h.index_select(-2, col)
    if weight is not None:
        sent = sent * weight.unsqueeze(-1)
    out = torch.zeros_like(h).index_add(-2, row, sent)
    if isinstance(own, Tensor):
        out = out + own.reshape(-1, 1, 1).squeeze(0) * h
    elif own:
        out = out + own * h
    if post is not None:
        out = out * post.unsqueeze(-1)
    return out if beside is None else out + beside


def activate(
    z: Tensor,
    bias: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    act: str,
    eps: float,
) -> Tensor:
    """A bias, then layer norm and ReLU (``"norm"``), or ``"tanh"``, or ``"none"``."""
    if bias is not None:
        z = z + bias.unsqueeze(-2)
    if act == "norm":
        assert gamma is not None and beta is not None
        z = F.layer_norm(z, z.shape[-1:], None, None, eps)
        return torch.relu(z * gamma.unsqueeze(-2) + beta.unsqueeze(-2))
    return torch.tanh(z) if act == "tanh" else z


def pool(h: Tensor, share: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Sums over graphs, ``[..., graphs, shares * channels]``."""
    parts = (h.unsqueeze(-2) * share.unsqueeze(-1)).flatten(-2)
    out = parts.new_zeros(*parts.shape[:-2], graphs, parts.shape[-1])
    return out.index_add(-2, batch, parts)


def attend(
    u: Tensor, row: Tensor, col: Tensor, weight: Tensor | None, heads: int, slope: float
) -> Tensor:
    """See :func:`legs.kernels.messages.attend`."""
    nodes, channels = u.shape[-2], u.shape[-1] // heads - 2
    h = u[..., : heads * channels].unflatten(-1, (heads, channels))
    sender, receiver = u[..., heads * channels :].chunk(2, dim=-1)
    everyone = torch.arange(nodes, device=u.device)
    row, col = torch.cat([row, everyone]), torch.cat([col, everyone])
    score = F.leaky_relu(sender.index_select(-2, col) + receiver.index_select(-2, row), slope)
    index = row.unsqueeze(-1).expand_as(score)
    lowest = torch.full_like(sender, -torch.inf)
    largest = lowest.scatter_reduce(-2, index, score.detach(), "amax")
    share = (score - largest.index_select(-2, row)).exp()
    if weight is not None:
        # The node itself counts once.
        share = share * torch.cat([weight, weight.new_ones(nodes)]).unsqueeze(-1)
    total = torch.zeros_like(sender).index_add(-2, row, share)
    share = share / total.index_select(-2, row)
    sent = share.unsqueeze(-1) * h.index_select(-3, col)
    return torch.zeros_like(h).index_add(-3, row, sent).flatten(-2)
