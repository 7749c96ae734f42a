"""What all networks share: graph in, prediction out, and a description to rebuild them from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from legs import functional as fn
from legs.nn import FCN, RBF, Attention, GraphBatchNorm, InputScale


def pool(
    states: Tensor,
    batch: Tensor | None,
    batch_size: int | None,
    copies: Tensor | None = None,
    mean: bool = True,
) -> Tensor:
    """Mean of node states over each graph, or their sum, ``[graphs, channels]``.

    Args:
        states: ``[nodes, channels]``.
        batch: the graph of each node; ``None`` for a single graph.
        batch_size: number of graphs (default: as many as ``batch`` names).
        copies: how many nodes each one stands for, ``[nodes]`` (default one).
        mean: whether to divide by the number of nodes (default); no nodes give zero.
    """
    if batch is None:
        batch, batch_size = torch.zeros(len(states), dtype=torch.long, device=states.device), 1
    elif batch_size is None:
        batch_size = int(batch.max()) + 1 if len(batch) else 0
    copies = None if copies is None else copies.to(states.dtype)
    pool_nodes = fn.graph_mean if mean else fn.graph_sum
    return pool_nodes(states, batch, batch_size, copies)


def check_copies(copies: Tensor | None, network: nn.Module) -> None:
    """Raises an error where nodes stand for several and dropout would draw once for all of them."""
    drops = (m for m in network.modules() if isinstance(m, nn.Dropout) and m.training and m.p > 0)
    if copies is not None and any(drops):
        raise ValueError("merged nodes would be dropped together: no dropout with copies")


class Network(nn.Module, ABC):
    """A network over graphs: :meth:`embed` turns graphs into features, ``head`` into predictions.

    ``forward`` takes what PyG layers take. Three more arguments serve training: ``powers``
    (:meth:`legs.nn.Scattering.walk_powers`, computed once for a data set), ``mask`` (the graphs of
    a batch whose statistics batch norm may see) and ``copies`` (how many nodes each stands for,
    where equivalent nodes were merged, :func:`legs.data.merge_equivalent`; few networks take them).
    """

    head: nn.Module
    kinds: ClassVar[dict[str, type[Network]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Network.kinds[cls.__name__] = cls

    @abstractmethod
    def embed(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        powers: Tensor | None = None,
    ) -> Tensor:
        """Features ``[graphs, features]`` that the head reads."""

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        powers: Tensor | None = None,
        mask: Tensor | None = None,
        copies: Tensor | None = None,
    ) -> Tensor:
        """Predictions, ``[graphs, out_channels]``."""
        merged = {} if copies is None else {"copies": copies}
        features = self.embed(x, edge_index, edge_weight, batch, batch_size, powers, **merged)
        return self.predict_from(features, mask)

    def predict_from(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Predictions from the features of :meth:`embed`."""
        takes_mask = isinstance(self.head, FCN | RBF | Attention)
        out: Tensor = self.head(features, mask) if takes_mask else self.head(features)
        return out

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        for child in self.children():
            reset(child)

    @property
    def embedding_is_fixed(self) -> bool:
        """Whether :meth:`embed` has nothing to learn, so that it can be done once and for all."""
        learned = {id(p) for p in self.parameters() if p.requires_grad}
        return learned <= {id(p) for p in self.head.parameters()}

    @property
    def power_steps(self) -> int | None:
        """Number of walk powers that :meth:`embed` can use, ``None`` if it cannot."""
        return None

    @property
    def output_layer(self) -> str | None:
        """Name of the linear layer that the network ends in; ``None`` if it ends in another."""
        last = self.head[-1] if isinstance(self.head, nn.Sequential) else self.head
        if not isinstance(last, FCN | RBF | Attention | nn.Linear):
            return None
        layers: list[str] = [
            name for name, module in self.named_modules() if type(module) is nn.Linear
        ]
        return layers[-1]

    def initialize(
        self, x: Tensor, features: Tensor | None = None, graphs: int | None = None
    ) -> None:
        """Sets what depends on training data but is not learned from it.

        Args:
            x: features of the training nodes.
            features: :meth:`embed` of the training graphs (for the anchors of an RBF head).
            graphs: number of training graphs, which bounds how far others may be from them
                (:meth:`legs.nn.GraphBatchNorm.bound_by`; default: no bound).
        """
        for module in self.modules():
            if isinstance(module, InputScale):
                module.init_scale(x)
            elif isinstance(module, GraphBatchNorm) and graphs is not None:
                module.bound_by(graphs)
        if isinstance(self.head, RBF) and features is not None:
            self.head.init_anchors(features)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Everything but the weights that is needed to rebuild the network, as JSON values."""

    @classmethod
    def rebuild(cls, description: dict[str, Any]) -> Network:
        """A fresh network of the same architecture."""
        return cls(**description)

    def num_parameters(self) -> int:
        """Number of learned parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def save(self, directory: str | Path) -> None:
        """Writes the network into a directory; :func:`legs.load` reads it."""
        from legs.models.saving import save_network

        save_network(self, directory)
