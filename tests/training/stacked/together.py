"""Outputs of the networks of a stack, computed as its validation does."""

import torch
from torch.func import stack_module_state

from legs.training.stacked.mapped import Mapped


@torch.no_grad()
def predict_stacked(networks, inputs, parts):
    """Outputs of each network for graphs of its own; ``parts`` are numbers of the graphs."""
    device = inputs.data.x.device
    parameters, buffers = stack_module_state(networks)
    models = torch.arange(len(networks), device=device)
    index = torch.unique(torch.cat([torch.as_tensor(part) for part in parts])).to(device)
    out = Mapped(networks[0], inputs).evaluate({**parameters, **buffers}, index, models)
    places = [torch.searchsorted(index, torch.as_tensor(part).to(device)) for part in parts]
    return [row[place] for row, place in zip(out, places, strict=True)]
