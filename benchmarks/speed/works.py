"""What is run: a train step and inference, of scattering and of those it is compared with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from benchmarks.speed.timing import Works
from legs import functional as fn
from legs.data.dataset import GraphBatch
from legs.kernels.csr import product
from legs.kernels.op import Backend, use_fused
from legs.nn import Scattering

# What scattering takes by itself, and the reference.
CHOICES: tuple[Backend, ...] = ("auto", "reference")


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

    The walk powers, which training computes once for a data set, are passed to the train step
    but not to inference, as new graphs come without. Several models are run at
    once by :func:`torch.func.vmap` over their scales.
    """
    device = graphs.x.device
    module = Scattering(
        graphs.x.shape[1], num_scales=scales, steps=steps, backend=backend, validate=False
    )
    module.to(device)
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
            return module(*graphs[:5], powers=powers)  # type: ignore[no-any-return]

        def one(theta: Tensor) -> Any:
            parameters = {"selection.theta": theta}
            return functional_call(module, parameters, graphs[:5], {"powers": powers})

        return vmap(one)(theta)  # type: ignore[no-any-return]

    def train() -> object:
        return torch.autograd.grad(forward(powers), theta, gradient)

    def inference() -> object:
        with torch.no_grad():
            return forward(None)

    return Works(train, inference)


def paths_of(
    x: Tensor, graphs: int, edge_index: Tensor | None = None, lanes: int = 1
) -> dict[str, str]:
    """By backend, the path that the usual scattering of ``x``, ``[nodes, channels]``, takes.

    With ``edge_index`` a reference that takes the products of :mod:`legs.kernels.csr`, ``lanes``
    columns at once, is called so.

    >>> paths_of(torch.ones(3, 2, dtype=torch.float16), graphs=1)
    {'auto': 'reference', 'reference': 'reference'}
    """
    path = x.device.type if use_fused("auto", x, num_graphs=graphs) else "reference"
    if path == "reference" and edge_index is not None:
        walk = fn.random_walk(edge_index, None, x.shape[0], x.dtype)
        path = product_path(walk, x[:, :1].expand(-1, lanes))
    return {"auto": path, "reference": "reference"}


def product_path(walk: fn.Walk, x: Tensor) -> str:
    """The path of a product of a walk with ``x``: ``"cpu csr"``, or the reference."""
    taken = product(walk.pattern, walk.forth, x)
    return "reference" if taken is None else f"{x.device.type} csr"


@torch.no_grad()
def diffusion_steps(x: Tensor, walk: fn.Walk, laziness: float, steps: int) -> Tensor:
    """The state after some steps of a lazy walk."""
    for _ in range(steps):
        x = fn.diffuse(x, walk, laziness)
    return x
