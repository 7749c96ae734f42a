"""What all networks share: graph in, prediction out, and a description to rebuild them from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import global_add_pool, global_mean_pool
from torch_geometric.nn.inits import reset

from legs.nn import FCN, RBF, Attention, GraphBatchNorm, InputScale


def graph_mean(states: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
    """Mean of node states over each graph; all nodes are one graph without ``batch``."""
    pooled: Tensor = global_mean_pool(states, *_numbered(states, batch, batch_size))
    return pooled


def graph_sum(states: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
    """Sum of node states over each graph; all nodes are one graph without ``batch``."""
    pooled: Tensor = global_add_pool(states, *_numbered(states, batch, batch_size))
    return pooled


def _numbered(
    states: Tensor, batch: Tensor | None, batch_size: int | None
) -> tuple[Tensor, int | None]:
    if batch is None:
        return torch.zeros(states.shape[0], dtype=torch.long, device=states.device), 1
    return batch, batch_size


class Network(nn.Module, ABC):
    """A network over graphs: :meth:`embed` turns graphs into features, ``head`` into predictions.

    ``forward`` takes what PyG layers take. Three more arguments serve training: ``powers``
    (:meth:`legs.nn.Scattering.walk_powers`, computed once for a data set), ``mask`` (the graphs of
    a batch whose statistics batch norm may see) and ``copies`` (how many nodes each stands for,
    where nodes that are alike were merged, :func:`legs.data.merge_alike`; few networks take them).
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
        known = {} if copies is None else {"copies": copies}
        features = self.embed(x, edge_index, edge_weight, batch, batch_size, powers, **known)
        return self.predict_from(features, mask)

    def predict_from(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Predictions from the features of :meth:`embed`."""
        takes_mask = isinstance(self.head, FCN | RBF | Attention)
        out: Tensor = self.head(features, mask) if takes_mask else self.head(features)
        return out

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
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
