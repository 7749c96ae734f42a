"""Outputs of the networks of a stack, computed as its validation does."""

import torch
from torch.func import stack_module_state

from legs.training.stacked.mapped import Mapped, masks_of, passes


@torch.no_grad()
def predict_stacked(networks, inputs, parts):
    """Outputs of each network for graphs of its own; ``parts`` are numbers of the graphs."""
    device = inputs.data.x.device
    parameters, buffers = stack_module_state(networks)
    mapped = Mapped(networks[0], inputs)
    masks = masks_of(parts, len(inputs.data)).to(device)
    outputs = {}
    for models, graphs, cut in passes(masks, inputs.rows):
        state = {k: v[models] for k, v in {**parameters, **buffers}.items()}
        out = mapped.evaluate(state, cut, models)
        for row, model in zip(out, models.tolist(), strict=True):
            index = torch.as_tensor(parts[model]).to(device)
            outputs[model] = row[torch.searchsorted(graphs, index)]
    return [outputs[model] for model in range(len(networks))]
