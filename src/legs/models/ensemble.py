from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from legs.models.network import Graphs, Network
from legs.nn import FCN


class Ensemble(Network):
    """Two trained networks, frozen, their graph features side by side, and a new head.

    Args:
        first: a trained network.
        second: another.
        embedding_channels: number of features of both together.
        out_channels: number of classes or targets.
        hidden_channels: width of the head (default 128).
        dropout: in the head (default 0).
    """

    def __init__(
        self,
        first: Network,
        second: Network,
        embedding_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.first = first.requires_grad_(False)
        self.second = second.requires_grad_(False)
        self.head: FCN = FCN(embedding_channels, out_channels, hidden_channels, dropout)

    def train(self, mode: bool = True) -> Ensemble:
        """Sets the head to training; the frozen networks stay in evaluation."""
        super().train(mode)
        self.first.eval()
        self.second.eval()
        return self

    def _embed(self, graphs: Graphs) -> Tensor:
        return torch.cat([part.embed(*graphs[:5]) for part in (self.first, self.second)], dim=1)

    def initialize(
        self, x: Tensor, features: Tensor | None = None, graphs: int | None = None
    ) -> None:
        """Bounds what the head takes; both networks are trained already."""
        if graphs is not None:
            self.head.norm.bound_by(graphs)

    def describe(self) -> dict[str, Any]:
        head = self.head.describe()
        parts = {
            name: {"kind": type(part).__name__, "description": part.describe()}
            for name, part in (("first", self.first), ("second", self.second))
        }
        return {"embedding_channels": head.pop("in_channels"), **head, **parts}

    @classmethod
    def rebuild(cls, description: dict[str, Any]) -> Ensemble:
        options = dict(description)
        for name in ("first", "second"):
            part = options[name]
            options[name] = Network.kinds[part["kind"]].rebuild(part["description"])
        return cls(**options)
