"""Predictions of many networks of one architecture at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import stack_module_state

from legs.models import Network
from legs.training.inputs import Inputs
from legs.training.stack_parts import Mapped, masks_of, passes


@torch.no_grad()
def predict_stacked(
    networks: Sequence[Network], inputs: Inputs, parts: Sequence[Any]
) -> list[Tensor]:
    """Outputs of each network for graphs of its own, in evaluation mode.

    As :func:`legs.training.inputs.predict` of one after another, to rounding.

    Args:
        networks: of one architecture, where the data are.
        inputs: the data set; features that are each network's own are in the same order.
        parts: numbers of the graphs that each network answers for.

    Returns:
        ``[graphs, out_channels]`` for each.
    """
    device = inputs.data.x.device
    parameters, buffers = stack_module_state(list(networks))
    mapped = Mapped(networks[0], inputs)
    masks = masks_of(list(parts), len(inputs.data), device)
    found: dict[int, Tensor] = {}
    for models, graphs, cut in passes(masks, inputs.rows):
        state = {k: v[models] for k, v in {**parameters, **buffers}.items()}
        out = mapped.evaluate(state, cut, models)
        for row, model in zip(out, models.tolist(), strict=True):
            index = torch.as_tensor(parts[model]).to(device)
            found[model] = row[torch.searchsorted(graphs, index)]
    return [found[model] for model in range(len(networks))]
