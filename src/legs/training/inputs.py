"""A data set as a network's training sees it: what no parameter changes is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from legs import functional as fn
from legs.data.dataset import GraphBatch, GraphDataset
from legs.models import Network
from legs.nn import Scattering

# Walk powers are kept for a data set while they fit into this; else they are diffused each time.
POWERS_AT_MOST = 4 * 2**30
CHUNK_NODES = 200_000


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
        """What a network takes for the graphs ``index``: features, or graphs and their powers."""
        if self.features is not None:
            return (self.features[index],), None
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
