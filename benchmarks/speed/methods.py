"""What is timed: a train step and inference of scattering and of PyG's GCN and GIN; diffusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch_geometric.nn import global_mean_pool
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.models import GCN, GIN

from benchmarks.speed.timing import Run
from legs import functional as fn
from legs.data.dataset import GraphBatch
from legs.kernels.csr import product
from legs.kernels.op import Backend, use_fused
from legs.nn import Scattering


class Works(NamedTuple):
    """What is timed of one method."""

    train: Run  # forward, and backward to all that is learned, from a fixed random gradient
    inference: Run


def _works(
    train: Callable[[], Tensor],
    inference: Callable[[], Tensor],
    learned: Sequence[Tensor],
    seed: int,
) -> Works:
    forward = torch.no_grad()(inference)
    out = forward()
    gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed)).to(out)
    return Works(lambda: torch.autograd.grad(train(), learned, gradient), forward)


def scattering_works(
    graphs: GraphBatch,
    backend: Backend,
    *,
    scales: int = 5,
    steps: int = 16,
    models: int = 1,
    seed: int = 0,
) -> Works:
    """Learned scattering, order two, four moments: the module as training uses it.

    The walk powers, which training computes once for a data set, are passed to the train step but
    not to inference, as new graphs come without. Several models are run at once by
    :func:`torch.func.vmap` over their scales.
    """
    channels = graphs.x.shape[1]
    module = Scattering(channels, num_scales=scales, steps=steps, backend=backend, validate=False)
    module.to(graphs.x.device)
    with torch.no_grad():
        walk = fn.random_walk(graphs.edge_index, graphs.edge_weight, len(graphs.x), graphs.x.dtype)
        powers = fn.walk_powers(graphs.x, walk, steps)
    assert module.selection.theta is not None
    theta: Tensor = module.selection.theta
    if models > 1:
        random = torch.Generator().manual_seed(seed)
        noise = 0.1 * torch.randn(models, *theta.shape, generator=random)
        theta = (theta.detach() + noise.to(theta)).requires_grad_()

    def forward(powers: Tensor | None) -> Any:
        if models == 1:
            return module(*graphs[:5], powers=powers)

        def one(theta: Tensor) -> Any:
            parameters = {"selection.theta": theta}
            return functional_call(module, parameters, graphs[:5], {"powers": powers})

        return vmap(one)(theta)

    return _works(partial(forward, powers), partial(forward, None), [theta], seed)


def gnn_works(kind: Literal["gcn", "gin"], graphs: GraphBatch, seed: int = 0) -> Works:
    """PyG's GCN (edge weights computed once) or GIN: three layers of width 64, mean over nodes."""
    edge_index, weights = graphs.edge_index, {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "gcn":
            network = GCN(graphs.x.shape[1], 64, 3, normalize=False)
            edge_index, weight = gcn_norm(edge_index, graphs.edge_weight, len(graphs.x))
            weights = {"edge_weight": weight}
        else:
            network = GIN(graphs.x.shape[1], 64, 3)
    network.to(graphs.x.device)

    def forward() -> Any:
        states = network(graphs.x, edge_index, **weights)
        return global_mean_pool(states, graphs.batch, graphs.batch_size)

    return _works(forward, forward, list(network.parameters()), seed)


def fused_path(x: Tensor, graphs: int, edge_index: Tensor | None = None, lanes: int = 1) -> str:
    """The path that scattering of ``x``, ``[nodes, channels]``, takes by itself.

    ``"cpu"`` or ``"cuda"`` where it is fused. With ``edge_index`` a reference that takes the
    products of :mod:`legs.kernels.csr`, ``lanes`` columns at once, is called so.

    >>> fused_path(torch.ones(3, 2, dtype=torch.float16), graphs=1)
    'reference'
    """
    if use_fused("auto", x, num_graphs=graphs):
        return x.device.type
    if edge_index is None:
        return "reference"
    walk = fn.random_walk(edge_index, None, x.shape[0], x.dtype)
    return product_path(walk, x[:, :1].expand(-1, lanes))


def product_path(walk: fn.Walk, x: Tensor) -> str:
    """The path of a product of a walk with ``x``: ``"cpu csr"``, or the reference."""
    taken = product(walk.pattern, walk.forth, x)
    return "reference" if taken is None else f"{x.device.type} csr"


@torch.no_grad()
def diffusion_steps(x: Tensor, walk: fn.Walk, steps: int) -> Tensor:
    """The state after some steps of a lazy walk."""
    for _ in range(steps):
        x = fn.diffuse(x, walk, 0.5)
    return x
