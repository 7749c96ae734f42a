"""A data set as a network's training sees it: what no parameter changes is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from legs import functional as fn
from legs.data.dataset import GraphBatch, GraphDataset
from legs.data.errors import DataError
from legs.data.merge import longest_first, merge_equivalent, without_loops
from legs.kernels.csr import accelerated
from legs.models import Network
from legs.nn import Scattering, WaveletConv

# Bytes of walk powers that are kept for a data set; more are diffused each time.
POWERS_AT_MOST = 4 * 2**30
CHUNK_NODES = 200_000
# Bytes of the features of all models of a stack that are kept, by type of device.
FEATURES_AT_MOST = {"cuda": 8 * 2**30, "cpu": 2 * 2**30}
# Equivalent nodes are merged if so many times fewer nodes and edges are left: edges get weights,
# for which kernels are compiled separately, and little is gained otherwise (docs/results/alike).
MERGED_FROM = 1.8
# Of a network, besides a batch of graphs: walk powers, multiplicities, other features.
Keywords = dict[str, Any]
# The output of a network for graphs (or nodes) by number, and a mask of those that count.
Reader = Callable[..., Tensor]


class Inputs:
    """Batches of a data set for one network.

    Where the network's embedding has nothing to learn, it is done once and batches are rows of a
    matrix. Else batches are gathered graphs, with the walk powers of the first scattering order;
    their nodes are classes of equivalent nodes, where that makes them much smaller
    (:mod:`legs.data.merge`). All this pays from the second pass over the data on, and costs memory;
    without ``keep`` nothing is computed ahead. The network's input scale must be set.
    """

    def __init__(
        self, data: GraphDataset, network: Network, device: torch.device, keep: bool = True
    ) -> None:
        self.data = with_read_features(data, network.edge_dim, network.graph_dim).to(device)
        # [graphs, features]; [models, graphs, features] if every model of a stack has its own
        self.features: Tensor | None = None
        self.channels = data.in_channels
        self.steps: int | None = None
        self.merged = False
        if not keep:
            return
        if network.embedding_is_fixed:
            self.features = embed(network, self.data)
            return
        multiplicity = self._arrange(network)
        columns = [self.data.x]
        steps = network.power_steps
        if steps and self.data.x.nbytes * steps <= POWERS_AT_MOST:
            self.steps = steps
            columns.append(walk_powers(self.data, steps, multiplicity))
        if multiplicity is not None:
            columns.append(multiplicity.unsqueeze(-1))
        if len(columns) > 1:  # side by side, so that one gather fetches all
            self.data = self.data.with_x(torch.cat(columns, dim=1))

    def __call__(self, network: Network, index: Tensor, mask: Tensor | None = None) -> Tensor:
        """The network's output for the graphs ``index``, ``[graphs, out_channels]``."""
        if self.features is not None and self.features.dim() == 2:
            return network.predict_from(self.features[index], mask)
        graphs, more = self.batch(index)
        out: Tensor = network(*graphs[:5], **more, mask=mask)
        return out

    def gather(self, index: Tensor) -> tuple[tuple[Any, ...], Keywords]:
        """What networks take for the graphs ``index``: graphs and more about them, or features."""
        if self.features is not None:
            return (self.features[..., index, :],), {}
        graphs, more = self.batch(index)
        return graphs[:5], more

    def batch(self, index: Tensor) -> tuple[GraphBatch, Keywords]:
        """The graphs ``index`` as one, and more about them."""
        return self.split(self.data.batch(index))

    def split(self, graphs: GraphBatch) -> tuple[GraphBatch, Keywords]:
        """Separates what lies side by side in the data set: signals, walk powers, multiplicity."""
        many = (self.steps or 0) * self.channels
        x, powers, multiplicity = graphs.x.split([self.channels, many, int(self.merged)], dim=1)
        more = more_features(graphs)
        if self.steps is not None:
            more["powers"] = powers.unflatten(1, (self.steps, self.channels))
        if self.merged:
            # Padding nodes have multiplicity zero, which nothing may be divided by.
            more["multiplicity"] = multiplicity.squeeze(1).clamp_min(1)
        return graphs._replace(x=x), more

    def _arrange(self, network: Network) -> Tensor | None:
        """Merges equivalent nodes if it pays, and returns multiplicities; else only sorts nodes.

        The order of nodes changes no graph's features, and that is all the networks give here.
        """
        if not network.takes_multiplicity or network.drops_nodes:
            return None  # dropout would draw once for all nodes of a class
        if self.data.edge_weight is None and not network.counts_loops:
            self.data = without_loops(self.data)
        data = self.data
        if data.edge_weight is None:
            merged, multiplicity = merge_equivalent(data)
            sizes = [each.num_nodes + len(each.col) for each in (data, merged)]
            if sizes[0] >= MERGED_FROM * sizes[1]:
                self.data, self.merged = merged, True
                return multiplicity
        self.data = longest_first(data)
        return None

    def keep_own_features(self, networks: list[Network]) -> None:
        """Embeds all graphs by every network of a stack, which learn no embedding, if they fit."""
        first = embed(networks[0], self.data)
        size = first.numel() * first.element_size() * len(networks)
        if size > FEATURES_AT_MOST.get(first.device.type, 0):
            return
        self.features = first.new_empty(len(networks), *first.shape)
        for place, network in enumerate(networks):
            self.features[place] = embed(network, self.data) if place else first

    @property
    def rows(self) -> Tensor:
        """What there is to compute for each graph: its nodes, or one row of features."""
        return self.data.sizes if self.features is None else torch.ones_like(self.data.sizes)


def with_read_features(
    data: GraphDataset, edge_dim: int | None, graph_dim: int | None
) -> GraphDataset:
    """The data set for a network that reads so many edge and graph-level features, or none."""
    if edge_dim is None:
        data = replace(data, edge_attr=None)
    if graph_dim is None:
        data = replace(data, graph_features=None, graph_feature_names=())
    own = (("edge", "edge_dim", edge_dim), ("graph-level", "graph_dim", graph_dim))
    for kind, option, dim in own:
        if (there := getattr(data, option)) != dim:
            raise DataError(
                f"the model reads {dim} {kind} features ({option}={dim}), but "
                f"{data.name or 'the data set'} has {there or 'none'}"
            )
    return data


def more_features(graphs: GraphBatch) -> Keywords:
    """Edge and graph-level features of a batch as arguments of a network, if there are any."""
    more = {"edge_attr": graphs.edge_attr, "graph_features": graphs.graph_features}
    return {name: tensor for name, tensor in more.items() if tensor is not None}


@contextmanager
def unchecked(network: Network) -> Iterator[None]:
    """Layers skip their checks inside: the data set was checked once."""
    kinds = (Scattering, WaveletConv)
    layers = [m for m in network.modules() if isinstance(m, kinds) and m.validate]
    for layer in layers:
        layer.validate = False
    try:
        yield
    finally:
        for layer in layers:
            layer.validate = True


@torch.no_grad()
def embed(network: Network, data: GraphDataset) -> Tensor:
    """Graph features of all graphs, ``[graphs, features]``, in evaluation mode."""
    training = network.training
    network.eval()
    data = with_read_features(data, network.edge_dim, network.graph_dim)
    with unchecked(network):
        batches = (data.batch(index) for index in _chunks(data))
        parts = [network.embed(*graphs[:5], **more_features(graphs)) for graphs in batches]
    network.train(training)
    return torch.cat(parts)


@torch.no_grad()
def predict(inputs: Reader, network: Network, index: Tensor, batch_size: int = 512) -> Tensor:
    """Outputs for the graphs ``index`` in evaluation mode."""
    training = network.training
    network.eval()
    with unchecked(network):
        out = torch.cat([inputs(network, part) for part in index.split(batch_size)])
    network.train(training)
    return out


def chunks(index: Tensor, rows: Tensor, most: int) -> tuple[Tensor, ...]:
    """The graphs ``index`` in parts of about ``most`` rows; ``rows`` are those of every graph."""
    place = (rows[index].cumsum(0) - 1).clamp_min(0) // max(most, 1)
    cuts = (place.diff().nonzero().flatten() + 1).cpu()
    return torch.tensor_split(index, cuts)


def _chunks(data: GraphDataset) -> tuple[Tensor, ...]:
    return chunks(torch.arange(len(data), device=data.ptr.device), data.sizes, CHUNK_NODES)


@torch.no_grad()
def walk_powers(data: GraphDataset, steps: int, multiplicity: Tensor | None) -> Tensor:
    """Walk powers of all nodes, ``[nodes, steps * channels]``."""
    powers = data.x.new_empty(data.num_nodes, steps * data.in_channels)
    for index in _chunks(data):
        graphs = data.batch(index)
        x, edge_index, weight = graphs[:3]
        start, end = int(data.ptr[index[0]]), int(data.ptr[index[-1] + 1])
        times = x.new_ones(1, 1)
        if multiplicity is not None:
            x, weight, times = fn.masses(x, edge_index, weight, multiplicity[start:end])
        walk = accelerated(fn.random_walk(edge_index, weight, len(x), x.dtype))
        powers[start:end] = fn.walk_powers(x, walk, steps).flatten(1) / times
    return powers
