from __future__ import annotations

import torch

from legs.nn import FeatureScale


def test_training_features_are_standardized_and_others_clipped() -> None:
    x = torch.randn(200, 3, dtype=torch.float64) * torch.tensor([1.0, 100.0, 1e-3]) + 7
    scale = FeatureScale(3).double()
    scale.init_scale(x)
    assert torch.allclose(scale(x).mean(0), torch.zeros(3).double(), atol=1e-6)
    assert torch.allclose(scale(x).std(0, correction=0), torch.ones(3).double(), atol=1e-5)
    assert torch.equal(scale(torch.full((1, 3), 1e9)), scale(x.amax(0, keepdim=True)))
    assert torch.equal(scale(-torch.full((1, 3), 1e9)), scale(x.amin(0, keepdim=True)))


def test_missing_values_are_the_median_of_training() -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan], [2.0, nan], [9.0, nan], [nan, nan], [inf, nan]])
    scale = FeatureScale(2)
    scale.init_scale(x)
    assert scale.median.tolist() == [2.0, 0.0]
    out = scale(torch.tensor([[nan, nan], [2.0, 1.0], [inf, 5.0]]))
    assert torch.equal(out, scale(torch.tensor([[2.0, 0.0]])).expand(3, 2))
    assert scale.dropped(["a", "b"])["constant"] == ["b"]


def test_a_rare_bit_does_not_outweigh_the_rest() -> None:
    x = torch.zeros(10_000, 1)
    x[0] = 1
    scale = FeatureScale(1)
    scale.init_scale(x)
    assert float(scale(x).max()) <= 5.01


def test_a_feature_that_equals_a_target_is_dropped_and_named() -> None:
    x = torch.randn(50, 4)
    y = torch.stack([-3 * x[:, 2] + 1, torch.randn(50)], dim=1)
    y[:5, 0] = float("nan")
    scale = FeatureScale(4)
    scale.init_scale(x, y)
    assert scale.dropped("abcd") == {"constant": [], "equal to a target": ["c"]}
    assert (scale(x)[:, 2] == 0).all()
    assert (scale(x)[:, [0, 1, 3]] != 0).all()
    scale.init_scale(x[5:10], y[5:10])  # few graphs agree by chance
    assert scale.dropped("abcd")["equal to a target"] == []


def test_the_state_is_buffers_and_unset_it_does_nothing() -> None:
    x = torch.randn(20, 3)
    one, other = FeatureScale(3), FeatureScale(3)
    assert torch.equal(one(x), x)
    one.init_scale(x)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(x), other(x))
    one.reset_parameters()
    assert torch.equal(one(x), x)


def test_many_scales_are_mapped() -> None:
    """As networks are that are trained together."""
    from torch.func import functional_call, stack_module_state, vmap

    x = torch.randn(3, 20, 2)
    x[0, 0, 0] = float("nan")
    scales = [FeatureScale(2) for _ in x]
    for scale, own in zip(scales, x, strict=True):
        scale.init_scale(own)
    _, buffers = stack_module_state(scales)
    out = vmap(lambda state: functional_call(scales[0], state, (x[0],)))(buffers)
    assert torch.equal(out, torch.stack([scale(x[0]) for scale in scales]))
