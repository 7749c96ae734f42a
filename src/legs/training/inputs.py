"""A data set as a network's training sees it: what no parameter changes is computed once."""

from __future__ import annotations

import torch
from torch import Tensor

from legs import functional as fn
from legs.data.dataset import GraphBatch, GraphDataset
from legs.models import Network

# Walk powers are kept for a data set while they fit into this; else they are diffused each time.
POWERS_AT_MOST = 4 * 2**30
CHUNK_NODES = 200_000


class Inputs:
    """Batches of a data set for one network.

    Where the network's embedding has nothing to learn, it is done once and batches are rows of a
    matrix. Else batches are gathered graphs, with the walk powers of the first scattering order.

    Args:
        data: the data set.
        network: reads the batches; its input scale must be set.
        device: where batches go.
    """

    def __init__(self, data: GraphDataset, network: Network, device: torch.device) -> None:
        self.data = data.to(device)
        self.features: Tensor | None = None
        self.channels = data.in_channels
        self.steps: int | None = None
        if network.embedding_is_fixed:
            self.features = embed(network, self.data)
            return
        steps = network.power_steps
        if steps and data.x.numel() * steps * 4 <= POWERS_AT_MOST:
            self.steps = steps
            # Side by side with the node features, so that one gather fetches both.
            powers = _walk_powers(self.data, steps)
            self.data = self.data.with_x(torch.cat([self.data.x, powers.flatten(1)], dim=1))

    def __call__(self, network: Network, index: Tensor, mask: Tensor | None = None) -> Tensor:
        """The network's output for the graphs ``index``, ``[graphs, out_channels]``."""
        if self.features is not None:
            return network.predict_from(self.features[index], mask)
        graphs, powers = self.batch(index)
        out: Tensor = network(*graphs[:5], powers=powers, mask=mask)
        return out

    def batch(self, index: Tensor) -> tuple[GraphBatch, Tensor | None]:
        """The graphs ``index`` as one, and their walk powers."""
        graphs = self.data.batch(index)
        if self.steps is None:
            return graphs, None
        x, powers = graphs.x.split([self.channels, self.steps * self.channels], dim=1)
        return graphs._replace(x=x), powers.unflatten(1, (self.steps, self.channels))


@torch.no_grad()
def embed(network: Network, data: GraphDataset) -> Tensor:
    """Graph features of all graphs, ``[graphs, features]``, in evaluation mode."""
    training = network.training
    network.eval()
    parts = [network.embed(*data.batch(index)[:5]) for index in _chunks(data)]
    network.train(training)
    return torch.cat(parts)


@torch.no_grad()
def predict(inputs: Inputs, network: Network, index: Tensor, batch_size: int = 512) -> Tensor:
    """Outputs for the graphs ``index`` in evaluation mode."""
    training = network.training
    network.eval()
    out = torch.cat([inputs(network, part) for part in index.split(batch_size)])
    network.train(training)
    return out


def _chunks(data: GraphDataset) -> list[Tensor]:
    """Graph numbers in runs of about ``CHUNK_NODES`` nodes, so that memory stays bounded."""
    place = (data.ptr[1:] - 1).clamp_min(0) // CHUNK_NODES
    cuts = (place.diff().nonzero().flatten() + 1).tolist()
    everything = torch.arange(len(data), device=data.ptr.device)
    return [part for part in torch.tensor_split(everything, cuts) if len(part)]


@torch.no_grad()
def _walk_powers(data: GraphDataset, steps: int) -> Tensor:
    parts = []
    for index in _chunks(data):
        graphs = data.batch(index)
        walk = fn.random_walk(graphs.edge_index, graphs.edge_weight, len(graphs.x), graphs.x.dtype)
        parts.append(fn.walk_powers(graphs.x, walk, steps))
    return torch.cat(parts)
