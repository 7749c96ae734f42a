"""A network mapped over the parameters of many models."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from legs.models import Network
from legs.nn import Scattering, WaveletConv
from legs.training.inputs import Inputs, Keywords

# One more pass over graphs costs as much as so many rows of a model, by type of device.
PASS_COSTS = {"cuda": 4_000_000, "cpu": 2_000}
# Rows of all models in one pass without gradients: bounds its memory.
ROWS_AT_ONCE = 8_000_000


class Mapped:
    """A network mapped over the parameters of many models; its own do not count."""

    def __init__(self, network: Network, inputs: Inputs) -> None:
        self.inputs = inputs
        self.base = copy.deepcopy(network).to("meta")
        if inputs.features is not None or inputs.own_features is not None:
            self.base.forward = self.base.predict_from  # type: ignore[method-assign, assignment]
        for module in self.base.modules():
            if isinstance(module, Scattering | WaveletConv):
                module.validate = False  # the data set was checked once
                module.is_sorted = True  # edges of its batches are, by target
        self.bound(int(inputs.data.sizes.max()) if len(inputs.data) else 0)

    def bound(self, nodes: int) -> None:
        """Sets how many nodes a graph of a batch has at most."""
        for module in self.base.modules():
            if isinstance(module, WaveletConv):
                module.largest = max(nodes, module.largest or 0)

    def __call__(
        self,
        state: dict[str, Tensor],
        arguments: tuple[Any, ...],
        keywords: Keywords,
        mask: Tensor,
        training: bool,
        models: Tensor,
    ) -> Tensor:
        """Outputs of all models, ``[models, graphs, out_channels]``.

        ``state``: parameters and buffers by name, ``[models, ...]``; in training, batch norm
        changes its own. ``arguments`` and ``keywords``: of :meth:`Inputs.gather`. ``mask``: the
        graphs that batch norm may see, ``[models, graphs]``. ``models``: their numbers, where each
        has features of its own.
        """
        self.base.train(training)
        over = None
        if self.inputs.own_features is not None:
            arguments, over = (arguments[0][models],), 0

        def run(state: dict[str, Tensor], mask: Tensor, arguments: tuple[Any, ...]) -> Any:
            return functional_call(self.base, state, arguments, keywords | {"mask": mask})

        mapped: Tensor = vmap(run, (0, 0, over), randomness="different")(state, mask, arguments)
        return mapped

    def evaluate(self, state: dict[str, Tensor], parts: Iterable[Tensor], models: Tensor) -> Tensor:
        """Outputs in evaluation mode for graphs in parts, as :meth:`__call__` has them."""
        outputs = []
        for index in parts:
            mask = torch.ones(len(models), len(index), dtype=torch.bool, device=index.device)
            outputs.append(self(state, *self.inputs.gather(index), mask, False, models))
        return torch.cat(outputs, dim=1)


class Pass(NamedTuple):
    """Models that read the same graphs, and these graphs."""

    models: Tensor
    graphs: Tensor
    parts: tuple[Tensor, ...]  # of the graphs, as many as are read at once


def passes(masks: Tensor, rows: Tensor) -> list[Pass]:
    """How models read the graphs they need: all together, or by equal sets of graphs.

    One pass over many graphs costs less than many over few, unless too much of it is wasted.
    ``masks`` are the graphs that each model needs, ``[models, graphs]``; ``rows``, ``[graphs]``, is
    what there is to compute for each graph: its nodes, for example.

    >>> needed = torch.tensor([[True, False], [False, True]])
    >>> [one.graphs.tolist() for one in passes(needed, torch.tensor([10, 10]))]
    [[0, 1]]
    >>> [one.graphs.tolist() for one in passes(needed, torch.tensor([1_000_000, 1_000_000]))]
    [[1], [0]]
    """
    sets, group = torch.unique(masks, dim=0, return_inverse=True)
    everyone = torch.arange(len(masks), device=masks.device)
    every = masks.any(0).nonzero().flatten()
    sharing = [(everyone[group == k], own.nonzero().flatten()) for k, own in enumerate(sets)]
    needed = sum(len(models) * rows[graphs].sum() for models, graphs in sharing)
    wasted = len(everyone) * rows[every].sum() - needed
    if wasted < PASS_COSTS.get(masks.device.type, 0) * (len(sharing) - 1):
        sharing = [(everyone, every)]
    result = []
    for models, graphs in sharing:
        place = (rows[graphs].cumsum(0) - 1).clamp_min(0) * len(models) // ROWS_AT_ONCE
        cuts = (place.diff().nonzero().flatten() + 1).cpu()
        result.append(Pass(models, graphs, torch.tensor_split(graphs, cuts)))
    return result


def masks_of(parts: Sequence[Any], graphs: int) -> Tensor:
    """Which graphs are in each part, ``[parts, graphs]``."""
    masks = torch.zeros(len(parts), graphs, dtype=torch.bool)
    for row, part in zip(masks, parts, strict=True):
        row[torch.as_tensor(part)] = True
    return masks
