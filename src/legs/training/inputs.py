"""A data set as a network's training sees it: what no parameter changes is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from legs import functional as fn
from legs.data.dataset import GraphBatch, GraphDataset
from legs.kernels import messages
from legs.models import GNN, Network, Snowball
from legs.nn import Scattering

# Walk powers are kept for a data set while they fit into this; else they are diffused each time.
POWERS_AT_MOST = 4 * 2**30
CHUNK_NODES = 200_000
# Features of every model of a stack are kept while they fit into this, by type of device.
FEATURES_AT_MOST = {"cuda": 8 * 2**30, "cpu": 2 * 2**30}


class Reader(Protocol):
    """Feeds a network: what training and prediction ask for outputs."""

    def __call__(self, network: Network, index: Tensor, mask: Tensor | None = None) -> Tensor:
        """The network's output for the graphs (or nodes) ``index``."""


class Inputs:
    """Batches of a data set for one network.

    Where the network's embedding has nothing to learn, it is done once and batches are rows of a
    matrix. Else batches are gathered graphs, with the walk powers of the first scattering order.

    Args:
        data: the data set.
        network: reads the batches; its input scale must be set.
        device: where batches go.
        keep: whether what no parameter changes is computed once and kept (default). It pays from
            the second pass over the data on, and costs memory.
    """

    def __init__(
        self, data: GraphDataset, network: Network, device: torch.device, keep: bool = True
    ) -> None:
        self.data = data.to(device)
        self.features: Tensor | None = None
        self.own_features: Tensor | None = None  # [models, graphs, features]
        self.channels = data.in_channels
        self.steps: int | None = None
        if not keep:
            return
        if network.embedding_is_fixed:
            self.features = embed(network, self.data)
            return
        steps = network.power_steps
        if steps and powers_fit(data.x, steps):
            self.steps = steps
            self.data = self.data.with_x(_with_powers(self.data, steps))

    def __call__(self, network: Network, index: Tensor, mask: Tensor | None = None) -> Tensor:
        """The network's output for the graphs ``index``, ``[graphs, out_channels]``."""
        if self.features is not None:
            return network.predict_from(self.features[index], mask)
        graphs, powers = self.batch(index)
        out: Tensor = network(*graphs[:5], powers=powers, mask=mask)
        return out

    def gather(self, index: Tensor) -> tuple[tuple[Any, ...], Tensor | None]:
        """What networks take for the graphs ``index``: features, or graphs and their powers.

        Features are ``[graphs, features]``, or ``[models, graphs, features]`` if every model of a
        stack has its own.
        """
        if self.features is not None:
            return (self.features[index],), None
        if self.own_features is not None:
            return (self.own_features[:, index],), None
        graphs, powers = self.batch(index)
        return graphs[:5], powers

    def batch(self, index: Tensor) -> tuple[GraphBatch, Tensor | None]:
        """The graphs ``index`` as one, and their walk powers."""
        return self.split(self.data.batch(index))

    def split(self, graphs: GraphBatch) -> tuple[GraphBatch, Tensor | None]:
        """Parts what lies together in the data set: signals and their walk powers."""
        if self.steps is None:
            return graphs, None
        x, powers = graphs.x.split([self.channels, self.steps * self.channels], dim=1)
        return graphs._replace(x=x), powers.unflatten(1, (self.steps, self.channels))

    def keep_own_features(self, networks: list[Network]) -> None:
        """Embeds all graphs by every network of a stack, once and for all, if there is room.

        Args:
            networks: with embeddings that have nothing to learn.
        """
        first = embed(networks[0], self.data)
        size = first.numel() * first.element_size() * len(networks)
        if size > FEATURES_AT_MOST.get(first.device.type, 0):
            return
        self.own_features = first.new_empty(len(networks), *first.shape)
        for place, network in enumerate(networks):
            self.own_features[place] = embed(network, self.data) if place else first

    @property
    def rows(self) -> Tensor:
        """What there is to compute for each graph: its nodes, or one row of features."""
        if self.features is None and self.own_features is None:
            return self.data.sizes
        return torch.ones_like(self.data.sizes)

    @cached_property
    def regular(self) -> bool:
        """Whether all edges go both ways, with the same weight, and none from a node to itself."""
        data, size = self.data, self.data.num_nodes
        nodes = torch.arange(size, device=data.col.device)
        target, source = torch.repeat_interleave(nodes, data.rowptr.diff()), data.col.long()
        there, order = (target * size + source).sort(stable=True)
        back, order_back = (source * size + target).sort(stable=True)
        if bool((source == target).any()) or not there.equal(back):
            return False
        weight = data.edge_weight
        return weight is None or weight[order].equal(weight[order_back])


@torch.no_grad()
def embed(network: Network, data: GraphDataset) -> Tensor:
    """Graph features of all graphs, ``[graphs, features]``, in evaluation mode."""
    training = network.training
    network.eval()
    with unchecked(network):
        parts = [network.embed(*data.batch(index)[:5]) for index in _chunks(data)]
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


@contextmanager
def unchecked(network: Network) -> Iterator[None]:
    """Graphs of a data set were checked once; inside, layers do not look at every batch again."""
    layers = [m for m in network.modules() if isinstance(m, Scattering) and m.validate]
    for layer in layers:
        layer.validate = False
    try:
        yield
    finally:
        for layer in layers:
            layer.validate = True


def trust_graphs(network: Network, inputs: Inputs) -> None:
    """Tells the message-passing layers of a network whether they can take the faster way.

    They cannot see for themselves at every batch what was found once for a data set.
    """
    for module in network.modules():
        if isinstance(module, GNN | Snowball):
            module.regular_graphs = messages.wanted(inputs.data.x) and inputs.regular


def powers_fit(x: Tensor, steps: int) -> bool:
    """Whether the walk powers of all nodes may be kept in memory."""
    return x.numel() * steps * x.element_size() <= POWERS_AT_MOST


def _chunks(data: GraphDataset) -> list[Tensor]:
    """Graph numbers in runs of about ``CHUNK_NODES`` nodes, so that memory stays bounded."""
    place = (data.ptr[1:] - 1).clamp_min(0) // CHUNK_NODES
    cuts = (place.diff().nonzero().flatten() + 1).tolist()
    everything = torch.arange(len(data), device=data.ptr.device)
    return [part for part in torch.tensor_split(everything, cuts) if len(part)]


@torch.no_grad()
def _with_powers(data: GraphDataset, steps: int) -> Tensor:
    """Node features and their walk powers side by side, so that one gather fetches both."""
    channels = data.in_channels
    wide = data.x.new_empty(data.num_nodes, (1 + steps) * channels)
    wide[:, :channels] = data.x
    for index in _chunks(data):
        graphs = data.batch(index)
        walk = fn.random_walk(graphs.edge_index, graphs.edge_weight, len(graphs.x), graphs.x.dtype)
        start, end = int(data.ptr[index[0]]), int(data.ptr[index[-1] + 1])
        wide[start:end, channels:] = fn.walk_powers(graphs.x, walk, steps).flatten(1)
    return wide
