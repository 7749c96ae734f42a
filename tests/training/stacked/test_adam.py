"""Adam for a stack is PyTorch's Adam for every model of it."""

from __future__ import annotations

import pytest
import torch

from legs.training.stacked.adam import ALIGNED, StackedAdam

SHAPES = {"odd": (3,), "weight": (4, 5), "one": (), "bias": (8,)}
RATES = (1e-3, 1e-2, 3e-1)


def start(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(len(RATES), *shape, generator=generator, dtype=dtype)
        for name, shape in SHAPES.items()
    }


def slopes(step, model):
    """Coefficients of a loss that is linear in the parameters."""
    generator = torch.Generator().manual_seed(100 * step + model)
    return {name: torch.randn(s, generator=generator).double() for name, s in SHAPES.items()}


@pytest.mark.parametrize("unused", [(), ("weight",)])
@pytest.mark.parametrize("clip", [None, 1.5])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_as_every_model_alone(weight_decay, clip, unused):
    """Thirty steps, some models at rest in some of them, one let go of half way."""
    adam = StackedAdam(start(), torch.tensor(RATES, dtype=torch.float64), weight_decay, clip)
    alone = []
    for model in range(len(RATES)):
        weights = {name: p[model].clone().requires_grad_() for name, p in start().items()}
        own = torch.optim.Adam(weights.values(), lr=RATES[model], weight_decay=weight_decay)
        alone.append((weights, own))
    running = [0, 1, 2]
    for step in range(30):
        if step == 15:
            adam.keep(torch.tensor([0, 2]))
            running = [0, 2]
        active = [(step + model) % 3 > 0 for model in running]
        loss = 0.0
        for place, (model, moves) in enumerate(zip(running, active, strict=True)):
            chosen = {k: s for k, s in slopes(step, model).items() if k not in unused}
            loss = loss + sum((s * adam.parameters[k][place]).sum() for k, s in chosen.items())
            weights, own = alone[model]
            if not moves:
                continue
            own.zero_grad()
            sum((s * weights[k]).sum() for k, s in chosen.items()).backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(weights.values(), clip)
            own.step()
        adam.step(loss, torch.tensor(active))
    for place, model in enumerate(running):
        for name, expected in alone[model][0].items():
            found = adam.parameters[name][place]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
            assert found.equal(start()[name][model]) == (name in unused)


def test_parameters_are_views_in_the_order_given():
    given = start()
    adam = StackedAdam(given, torch.tensor(RATES))
    assert list(adam.parameters) == list(given)
    for name, part in adam.parameters.items():
        assert part.equal(given[name])
        assert part.is_leaf and part.requires_grad
        assert part.untyped_storage().data_ptr() == adam.weights.untyped_storage().data_ptr()
    # Those of whole pieces start at whole pieces, for every model.
    assert adam.weights.stride(0) % ALIGNED == 0
    assert all(adam.parameters[name].storage_offset() % ALIGNED == 0 for name in ("weight", "bias"))


def test_goes_on_from_parameters_and_moments():
    calm, first = (StackedAdam(start(), torch.tensor(RATES, dtype=torch.float64)) for _ in range(2))
    active = torch.tensor([True, True, False])

    def step(adam):
        adam.step(sum(p.square().sum() for p in adam.parameters.values()), active)

    step(calm)
    step(first)
    again = StackedAdam(start(), torch.ones(len(RATES)).double())
    again.restore(*(row.detach().clone() for row in first.state()))
    for adam in (calm, again):
        step(adam)
    for name, part in calm.parameters.items():
        assert part.equal(again.parameters[name])
    assert calm.second_moments.equal(again.second_moments)
    assert calm.steps.tolist() == again.steps.tolist() == [2, 2, 0]
