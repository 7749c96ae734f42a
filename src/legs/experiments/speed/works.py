"""What is run: a train step and inference, of scattering and of those it is compared with."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from legs.data.dataset import GraphBatch
from legs.experiments.speed.timing import Run
from legs.experiments.speed.ways import Choice
from legs.kernels import use
from legs.nn import Scattering

GNN_LAYERS, GNN_WIDTH = 3, 64
# GeoScattering takes nodes one by one, in Python; of some graphs the time for all is known.
GEOSCATTERING_NODES = 1000


class Works(NamedTuple):
    """What one method can be asked to do."""

    train: Run  # forward, and backward to all that is learned, from a fixed random gradient
    inference: Run


def scattering_works(
    graphs: GraphBatch,
    choice: Choice,
    *,
    scales: int = 5,
    steps: int = 16,
    models: int = 1,
    seed: int = 0,
) -> Works:
    """Learned scattering, order two, four moments: the module as training uses it.

    The walk powers, which training computes once for a data set, are given to the train step; to
    inference they are not, as new graphs come without.

    Args:
        graphs: the batch.
        choice: of kernels, as for :func:`legs.kernels.use`.
        scales: number of scales (default 5).
        steps: of diffusion (default 16).
        models: at once, by :func:`torch.func.vmap` over their scales (default 1).
        seed: of the scales and the gradient (default 0).
    """
    device = graphs.x.device
    module = Scattering(graphs.x.shape[1], num_scales=scales, steps=steps, validate=False)
    module.to(device)
    given = graphs[:5]
    with torch.no_grad():
        powers = module.walk_powers(graphs.x, graphs.edge_index, graphs.edge_weight)
    assert module.selection.theta is not None
    theta: Tensor = module.selection.theta
    source = torch.Generator().manual_seed(seed)
    shape: tuple[int, ...] = (graphs.batch_size, module.out_channels)
    if models > 1:
        drawn = 0.1 * torch.randn(models, *theta.shape, generator=source)
        theta = (theta.detach() + drawn.to(device)).requires_grad_()
        shape = (models, *shape)
    gradient = torch.randn(shape, generator=source).to(device)

    def forward(powers: Tensor | None) -> Tensor:
        if models == 1:
            return module(*given, powers=powers)  # type: ignore[no-any-return]

        def one(theta: Tensor) -> Any:
            return functional_call(module, {"selection.theta": theta}, given, {"powers": powers})

        return vmap(one)(theta)  # type: ignore[no-any-return]

    def train() -> object:
        with use(choice):
            return torch.autograd.grad(forward(powers), theta, gradient)

    def inference() -> object:
        with use(choice), torch.no_grad():
            return forward(None)

    return Works(train, inference)


def gnn_works(kind: Literal["gcn", "gin"], graphs: GraphBatch, seed: int = 0) -> Works:
    """PyG's GCN or GIN, three layers of width 64, mean over the nodes.

    GCN's weights of edges are computed beforehand: its layers would do so at every step.
    """
    from torch_geometric.nn import global_mean_pool
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.nn.models import GCN, GIN

    device, channels = graphs.x.device, graphs.x.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "gcn":
            network = GCN(channels, GNN_WIDTH, GNN_LAYERS, normalize=False)
        else:
            network = GIN(channels, GNN_WIDTH, GNN_LAYERS)
        gradient = torch.randn(graphs.batch_size, GNN_WIDTH).to(device)
    network.to(device)
    learned = list(network.parameters())
    edge_index, weights = graphs.edge_index, {}
    if kind == "gcn":
        edge_index, weight = gcn_norm(edge_index, graphs.edge_weight, len(graphs.x))
        weights = {"edge_weight": weight}

    def forward() -> Tensor:
        states = network(graphs.x, edge_index, **weights)
        return global_mean_pool(states, graphs.batch, graphs.batch_size)  # type: ignore[no-any-return]

    def train() -> object:
        return torch.autograd.grad(forward(), learned, gradient)

    def inference() -> object:
        with torch.no_grad():
            return forward()

    return Works(train, inference)


def geoscattering(graphs: GraphBatch) -> tuple[Run, float] | None:
    """karateclub's GeoScattering on some of the graphs, and how many times as many nodes there are.

    ``None`` where karateclub is not installed. It computes its node features itself, and needs
    connected graphs: it gets the largest component of each.
    """
    if find_spec("karateclub") is None:
        return None
    import networkx as nx

    made: list[Any] = []
    for number in range(graphs.batch_size):
        if sum(map(len, made)) > GEOSCATTERING_NODES:
            break
        nodes = torch.nonzero(graphs.batch == number).flatten().tolist()
        graph: Any = nx.Graph()
        graph.add_nodes_from(nodes)
        ends = graphs.edge_index[:, graphs.batch[graphs.edge_index[0]] == number]
        graph.add_edges_from((a, b) for a, b in ends.T.tolist() if a != b)
        largest = max(nx.connected_components(graph), key=len)
        if len(largest) > 1:
            made.append(nx.convert_node_labels_to_integers(graph.subgraph(largest)))
    if not made:
        return None
    create: Callable[[], Any] = import_module("karateclub").GeoScattering

    def run() -> None:
        # Some versions print.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            create().fit(made)

    return run, len(graphs.x) / sum(map(len, made))
