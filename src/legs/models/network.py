"""What all networks share: graphs in, predictions out, and a description to rebuild them from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from legs import functional as fn
from legs.nn import RBF, GraphBatchNorm, InputScale
from legs.nn.head import Head
from legs.nn.scattering import RENAMED


class Graphs(NamedTuple):
    """A batch of graphs, as :meth:`Network.embed` takes it."""

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    batch: Tensor | None = None
    batch_size: int | None = None
    powers: Tensor | None = None
    multiplicity: Tensor | None = None
    edge_attr: Tensor | None = None
    mask: Tensor | None = None
    graph_features: Tensor | None = None

    def segments(self) -> tuple[Tensor, int]:
        """The graph of each node, and the number of graphs."""
        batch, size = self.batch, self.batch_size
        if batch is None:
            return torch.zeros(len(self.x), dtype=torch.long, device=self.x.device), 1
        if size is None:
            size = int(batch.max()) + 1 if len(batch) else 0
        return batch, size

    def mean(self, states: Tensor) -> Tensor:
        """Mean of node states over each graph, ``[graphs, channels]``; zero without nodes."""
        multiplicity = None if self.multiplicity is None else self.multiplicity.to(states.dtype)
        return fn.graph_mean(states, *self.segments(), multiplicity)


class Network(nn.Module, ABC):
    """A network over graphs: :meth:`embed` turns graphs into features, ``head`` into predictions.

    ``forward`` takes what PyG layers take; ``edge_attr`` only networks with an ``edge_dim``, and
    ``graph_features``, ``[graphs, graph_dim]``, only those with a ``graph_dim``. Three more
    arguments serve training: ``powers`` (:meth:`legs.nn.Scattering.walk_powers`, computed once for
    a data set), ``mask`` (the graphs of a batch whose statistics batch norm may see) and
    ``multiplicity`` (how many equivalent nodes each one stands for,
    :func:`legs.data.merge_equivalent`).
    """

    head: nn.Module
    #: The arguments of ``__init__``, for :meth:`describe`.
    description: dict[str, Any]
    #: Number of edge features that are read; ``None``: none.
    edge_dim: int | None = None
    #: Number of graph-level features that are read; ``None``: none.
    graph_dim: int | None = None
    kinds: ClassVar[dict[str, type[Network]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Network.kinds[cls.__name__] = cls

    def embed(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        powers: Tensor | None = None,
        multiplicity: Tensor | None = None,
        edge_attr: Tensor | None = None,
        mask: Tensor | None = None,
        graph_features: Tensor | None = None,
    ) -> Tensor:
        """Features ``[graphs, features]`` that the head reads."""
        first = (x, edge_index, edge_weight, batch, batch_size, powers, multiplicity)
        graphs = Graphs(*first, edge_attr, mask, graph_features)
        if multiplicity is not None:
            if not self.takes_multiplicity:
                raise ValueError(f"{type(self).__name__} does not take merged nodes")
            if self.training and self.drops_nodes:
                raise ValueError("merged nodes would be dropped together: no dropout with these")
        with torch.autocast(x.device.type, enabled=False):  # sums over nodes are not rounded
            return self._embed(graphs)

    @property
    def takes_multiplicity(self) -> bool:
        """Whether merged nodes count by their multiplicity."""
        return False

    @property
    def counts_loops(self) -> bool:
        """Whether a self-loop makes a node one of its own neighbors."""
        return True

    @property
    def drops_nodes(self) -> bool:
        """Whether dropout applies to states of nodes: anywhere but in the head."""
        layers = (child.modules() for child in self.children() if child is not self.head)
        return any(isinstance(m, nn.Dropout) and m.p > 0 for part in layers for m in part)

    @abstractmethod
    def _embed(self, graphs: Graphs) -> Tensor: ...

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        powers: Tensor | None = None,
        mask: Tensor | None = None,
        multiplicity: Tensor | None = None,
        edge_attr: Tensor | None = None,
        graph_features: Tensor | None = None,
    ) -> Tensor:
        """Predictions, ``[graphs, out_channels]``."""
        graphs = (x, edge_index, edge_weight, batch, batch_size, powers, multiplicity)
        features = self.embed(*graphs, edge_attr, mask, graph_features)
        return self.predict_from(features, mask)

    def predict_from(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Predictions from the features of :meth:`embed`."""
        masked = (mask,) if isinstance(self.head, Head) else ()
        out: Tensor = self.head(features, *masked)
        return out

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        for child in self.children():
            reset(child)

    @property
    def embedding_is_fixed(self) -> bool:
        """Whether :meth:`embed` has nothing to learn, so that it can be computed once."""
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
        if not isinstance(last, Head | nn.Linear):
            return None
        names = [name for name, module in self.named_modules() if type(module) is nn.Linear]
        return str(names[-1])

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

    def describe(self) -> dict[str, Any]:
        """Everything but the weights that is needed to rebuild the network, as JSON values."""
        return dict(self.description)

    @classmethod
    def rebuild(cls, description: dict[str, Any]) -> Network:
        """A fresh network of the same architecture."""
        return cls(**{RENAMED.get(name, name): value for name, value in description.items()})

    def num_parameters(self) -> int:
        """Number of learned parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def save(self, directory: str | Path) -> None:
        """Writes the network into a directory; :func:`legs.load` reads it."""
        from legs.models.saving import describe_network, save_directory

        save_directory(directory, {"network": describe_network(self)}, self.state_dict())
