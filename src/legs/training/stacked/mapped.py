"""A network mapped over the parameters of many models."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from legs.models import Network
from legs.nn import Scattering, WaveletConv
from legs.training.inputs import Inputs, Keywords, chunks

# Rows of all models at a time without gradients: bounds their memory.
ROWS_AT_ONCE = 8_000_000


class Mapped:
    """A network mapped over the parameters of many models; its own do not count."""

    def __init__(self, network: Network, inputs: Inputs) -> None:
        self.inputs = inputs
        self.base = copy.deepcopy(network).to("meta")
        if inputs.features is not None:
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
        if self.inputs.features is not None and self.inputs.features.dim() == 3:
            arguments, over = (arguments[0][models],), 0

        def run(state: dict[str, Tensor], mask: Tensor, arguments: tuple[Any, ...]) -> Any:
            return functional_call(self.base, state, arguments, keywords | {"mask": mask})

        mapped: Tensor = vmap(run, (0, 0, over), randomness="different")(state, mask, arguments)
        return mapped

    def evaluate(self, state: dict[str, Tensor], index: Tensor, models: Tensor) -> Tensor:
        """Outputs in evaluation mode for the graphs ``index``, as :meth:`__call__` has them."""
        outputs = []
        for part in chunks(index, self.inputs.rows, ROWS_AT_ONCE // len(models)):
            mask = torch.ones(len(models), len(part), dtype=torch.bool, device=part.device)
            outputs.append(self(state, *self.inputs.gather(part), mask, False, models))
        return torch.cat(outputs, dim=1)


def masks_of(parts: Sequence[Any], graphs: int) -> Tensor:
    """Which graphs are in each part, ``[parts, graphs]``."""
    masks = torch.zeros(len(parts), graphs, dtype=torch.bool)
    for row, part in zip(masks, parts, strict=True):
        row[torch.as_tensor(part)] = True
    return masks
