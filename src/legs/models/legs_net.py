"""Networks of one scattering module, and ensembles of networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import models

from legs.models.network import Graphs, Network
from legs.models.saving import describe_network
from legs.nn import FCN, RBF, Attention, InputScale, Moments, Scattering
from legs.nn.head import Head, arguments
from legs.nn.scattering import RENAMED

HEADS: dict[str, type[Head]] = {"FCN": FCN, "RBF": RBF, "Attention": Attention}


class LEGSNet(Network):
    """Scattering followed by a head: ``head(scattering(graph))``.

    Args:
        scattering: turns graphs into features (or nodes, if its ``aggr`` is ``None``).
        head: :class:`~legs.nn.FCN`, :class:`~legs.nn.RBF`, :class:`~legs.nn.Attention`, or any
            module from ``[graphs, scattering.out_channels]`` to ``[graphs, out_channels]``.

    >>> scattering = Scattering(in_channels=1)
    >>> model = LEGSNet(scattering, FCN(scattering.out_channels, 2)).eval()
    >>> model(torch.rand(2, 1), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 2])
    """

    def __init__(self, scattering: Scattering, head: nn.Module) -> None:
        super().__init__()
        expected = getattr(head, "in_channels", scattering.out_channels)
        if expected != scattering.out_channels:
            raise ValueError(
                f"head takes {expected} features, but scattering gives {scattering.out_channels}"
            )
        self.scattering = scattering
        self.head = head

    @property
    def takes_multiplicity(self) -> bool:
        """Whether merged nodes count by their multiplicity: in moments."""
        return self.scattering.knows_mass and isinstance(self.scattering.aggr, Moments)

    def _embed(self, graphs: Graphs) -> Tensor:
        powers, multiplicity = graphs[5:7]
        out: Tensor = self.scattering(*graphs[:5], powers=powers, multiplicity=multiplicity)
        return out

    @property
    def power_steps(self) -> int | None:
        return self.scattering.selection.steps if self.scattering.operator == "walk" else None

    def describe(self) -> dict[str, Any]:
        kind = type(self.head).__name__
        if not isinstance(self.head, Head) or HEADS.get(kind) is not type(self.head):
            raise ValueError(
                f"a network with a head of type {kind} cannot be saved; heads that can: "
                f"{', '.join(HEADS)}"
            )
        head = {"kind": kind, **self.head.describe()}
        return {"scattering": self.scattering.describe(), "head": head}

    @classmethod
    def rebuild(cls, description: dict[str, Any]) -> LEGSNet:
        options = {RENAMED.get(k, k): v for k, v in description["scattering"].items()}
        if isinstance(options["aggr"], dict):
            options["aggr"] = Moments(**options["aggr"])
        head = dict(description["head"])
        return cls(Scattering(**options), HEADS[head.pop("kind")](**head))


class MPLEGS(Network):
    """Learned scattering of hidden node states: message passing first, then LEGS.

    A GIN-style network (three layers of width 16 by default) makes node states; learned scattering
    of these, with moments, gives graph features; then the fully connected head.

    Args:
        in_channels: number of node features.
        out_channels: number of classes or targets.
        state_channels: width of the node states (default 16).
        num_layers: number of message-passing layers (default 3).
        hidden_channels: width of the head (default 128).
        dropout: in head and layers (default 0).
        scattering: further options of :class:`~legs.nn.Scattering`.

    >>> MPLEGS(2, 3).eval()(torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        state_channels: int = 16,
        num_layers: int = 3,
        hidden_channels: int = 128,
        dropout: float = 0.0,
        **scattering: Any,
    ) -> None:
        super().__init__()
        self.description = arguments(locals())
        self.scale = InputScale(in_channels)
        widths = (in_channels, state_channels, num_layers)
        norm = {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}}
        self.layers = models.GIN(*widths, dropout=dropout, **norm)
        self.scattering = Scattering(state_channels, **scattering)
        self.head = FCN(self.scattering.out_channels, out_channels, hidden_channels, dropout)

    def _embed(self, graphs: Graphs) -> Tensor:
        states = self.layers(self.scale(graphs.x), graphs.edge_index)
        out: Tensor = self.scattering(states, *graphs[1:5])
        return out


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
        parts = {"first": describe_network(self.first), "second": describe_network(self.second)}
        return {"embedding_channels": head.pop("in_channels"), **head, **parts}

    @classmethod
    def rebuild(cls, description: dict[str, Any]) -> Ensemble:
        options = dict(description)
        for name in ("first", "second"):
            part = options[name]
            options[name] = Network.kinds[part["kind"]].rebuild(part["description"])
        return cls(**options)
