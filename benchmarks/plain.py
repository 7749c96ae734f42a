"""Scattering against a plain formulation in PyTorch: one CSR matrix, dense powers, ``einsum``.

``python -m benchmarks.plain`` prints how many times faster :class:`legs.nn.Scattering` is, forward
and backward, on a batch of molecule-sized graphs; then the same for the bands of hidden signals,
for :class:`legs.nn.WaveletConv` beside PyG's ``GINConv``, and the cost of a gradient in ``x``.
Medians of turns of some milliseconds each (:mod:`benchmarks.speed.timing`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from legs import Scattering
from legs import functional as fn


class _Product(torch.autograd.Function):
    """``matrix @ x`` with a precomputed transpose for backward."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:
        ctx.transposed = transposed
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed @ grads[0]


def plain_scattering(theta: Tensor, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    """What ``Scattering(channels)`` computes, ``[graphs, 16 * channels * 4]``."""
    nodes, (scales, steps) = len(x), theta.shape
    graphs = int(batch[-1]) + 1
    source, target = edge_index
    degree = x.new_zeros(nodes).index_add(0, source, x.new_ones(len(source)))
    loops = (degree == 0).nonzero().flatten()
    source, target = torch.cat([source, loops]), torch.cat([target, loops])
    probability = 1 / degree.clamp_min(1)[source]
    walk = _csr(target, source, probability, nodes)
    transposed = _csr(source, target, probability, nodes)
    filters = fn.wavelet_weights(fn.select_scales(theta))

    def wavelets(signal: Tensor) -> Tensor:
        states = [(signal - _Product.apply(walk, transposed, signal)) / 2]  # type: ignore[no-untyped-call]
        for _ in range(steps - 1):
            moved = _Product.apply(walk, transposed, states[-1])  # type: ignore[no-untyped-call]
            states.append((states[-1] + moved) / 2)
        return torch.einsum("jt,tnc->jnc", filters, torch.stack(states))

    first = wavelets(x).abs()
    parents = torch.cat(list(first[:-1]), dim=1)
    children = wavelets(parents).abs().unflatten(2, (scales - 1, -1))
    pairs = [children[parent + 1 :, :, parent] for parent in range(scales - 1)]
    z = torch.cat([x.unsqueeze(0), first, *pairs]).movedim(0, 1).flatten(1)

    count = x.new_zeros(graphs).index_add(0, batch, x.new_ones(nodes)).unsqueeze(1)

    def mean(values: Tensor) -> Tensor:
        return values.new_zeros(graphs, values.shape[1]).index_add(0, batch, values) / count

    energy = mean(x * x + (walk @ torch.ones_like(x[:, :1])) * (walk @ (x * x)))
    floor = (1e-6 * energy + 1e-30).repeat(1, z.shape[1] // x.shape[1])
    centre = mean(z)
    distance = z - centre.index_select(0, batch)
    square = distance * distance
    variance, third, fourth = mean(square), mean(square * distance), mean(square * square)
    spread = torch.maximum(variance, floor)
    ratio = ((variance / floor - 1) / 3).clamp(0, 1)
    fade = ratio**3 * (10 - 15 * ratio + 6 * ratio**2)
    shape = third / spread**1.5, fourth / spread**2 - 3
    return torch.stack([centre, variance, fade * shape[0], fade * shape[1]], dim=2).flatten(1)


def _csr(row: Tensor, col: Tensor, value: Tensor, size: int) -> Tensor:
    """32-bit indices: PyTorch would convert others at every product."""
    order = torch.argsort(row)
    rowptr = torch.searchsorted(row[order], torch.arange(size + 1))
    index, shape = (rowptr.int(), col[order].int()), (size, size)
    return torch.sparse_csr_tensor(*index, value[order], shape, check_invariants=False)


def molecules(graphs: int = 128, channels: int = 2, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Signals, edges and batch vector of random trees with a few rings, 12 to 35 nodes each."""
    source = torch.Generator().manual_seed(seed)
    ends, sizes = [], torch.randint(12, 36, (graphs,), generator=source)
    for first, size in zip((sizes.cumsum(0) - sizes).tolist(), sizes.tolist(), strict=True):
        child = torch.arange(1, size)
        back = 1 + (3 * torch.rand(size - 1, generator=source) ** 3).long()
        tree = torch.stack([child, (child - back).clamp_min(0)])
        rings = torch.stack([torch.arange(0, size - 5, 9), torch.arange(5, size, 9)])
        both = torch.cat([tree, rings], dim=1) + first
        ends += [both, both.flip(0)]
    batch = torch.repeat_interleave(torch.arange(graphs), sizes)
    return torch.rand(len(batch), channels, generator=source), torch.cat(ends, dim=1), batch


def training_steps(channels: int = 2, **options: Any) -> dict[str, Callable[[], Any]]:
    """Forward and backward of both, on fresh tensors at every call."""
    x, edge_index, batch = molecules(channels=channels)
    module = Scattering(channels, **options)
    theta: Tensor = module.selection.theta  # type: ignore[assignment]
    gradient = torch.randn(int(batch[-1]) + 1, module.out_channels)

    def fused() -> Tensor:
        out = module(x.clone(), edge_index.clone(), batch=batch.clone())
        return torch.autograd.grad(out, theta, gradient)[0]

    def plain() -> Tensor:
        out = plain_scattering(theta, x.clone(), edge_index.clone(), batch.clone())
        return torch.autograd.grad(out, theta, gradient)[0]

    return {"fused": fused, "plain": plain}


def plain_bank(x: Tensor, edge_index: Tensor, filters: Tensor) -> Tensor:
    """Filters ``[bands, steps + 1]`` of the row walk, ``[nodes, bands, channels]``."""
    source, target = edge_index
    degree = torch.bincount(target, minlength=len(x)).clamp_min(1).to(x.dtype)
    walk = _csr(target, source, 1 / degree[target], len(x))
    transposed = _csr(source, target, 1 / degree[target], len(x))
    states = [x]
    for _ in range(filters.shape[1] - 1):
        moved = _Product.apply(walk, transposed, states[-1])  # type: ignore[no-untyped-call]
        states.append((states[-1] + moved) / 2)
    return torch.einsum("bt,tnc->nbc", filters, torch.stack(states))


def hidden_steps(width: int = 64) -> dict[str, Callable[[], Any]]:
    """Forward and backward, in signals too, of what hidden layers do with ``width`` channels."""
    # Imported here: other versions are timed by this file, too.
    from legs.functional.bank import power_filters
    from legs.kernels.bank import difference_bank, prepare
    from legs.nn import WaveletConv

    (x, edge_index, batch), inputs = molecules(channels=width), molecules()[0]
    conv, module = WaveletConv(width, width), Scattering(2)
    gin = GINConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))
    filters: Tensor = conv.fixed_filters  # type: ignore[assignment]
    sizes = {"bands": len(filters), "states": filters.shape[1]}
    powers = power_filters(filters)

    def bands(x: Tensor) -> Tensor:
        graph = prepare("auto", x, edge_index, None, batch, 128, **sizes)
        return difference_bank(graph, x, filters)

    def step(run: Callable[[Tensor], Tensor], x: Tensor, *others: Any, grad: bool = True) -> Any:
        gradient = torch.randn_like(run(x))

        def backward() -> None:
            leaf = x.clone().requires_grad_(grad)
            torch.autograd.grad(run(leaf), [*[leaf] * grad, *others], gradient)

        return backward

    def scatter(x: Tensor) -> Tensor:
        return module(x, edge_index, batch=batch)

    theta = module.selection.theta
    return {
        "bands": step(bands, x),
        "bands, plain": step(lambda x: plain_bank(x, edge_index, powers), x),
        "WaveletConv": step(lambda x: conv(x, edge_index, batch=batch), x, *conv.parameters()),
        "GINConv": step(lambda x: gin(x, edge_index), x, *gin.parameters()),
        "Scattering(2), gradient in x": step(scatter, inputs, theta),
        "Scattering(2)": step(scatter, inputs, theta, grad=False),
    }


def main() -> None:
    from benchmarks.speed.timing import compare  # here: other versions lack it

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    steps = {f"Scattering, validate={on}": training_steps(validate=on) for on in (True, False)}
    for title, runs in (steps | {"": hidden_steps()}).items():
        measured = compare(runs, rounds=options.rounds).items()
        times = [(name, 1e3 * (timing.seconds or 0)) for name, timing in measured]
        for (ours, a), (other, b) in zip(times[::2], times[1::2], strict=True):
            print(f"{title or ours} {a:.2f} ms, {other} {b:.2f} ms: {b / a:.2f} times as fast")


if __name__ == "__main__":
    main()
