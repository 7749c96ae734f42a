import numpy as np
import pytest
import scipy.stats
import torch
from torch_geometric.nn.aggr import MultiAggregation

from legs import Moments
from legs.functional import moments


def test_against_scipy():
    z = torch.randn(30, 5, dtype=torch.float64) ** 2
    batch = torch.arange(3).repeat_interleave(10)
    found = moments(z, batch, 3)
    for graph in range(3):
        part = z[batch == graph].numpy()
        expected = np.stack(
            [part.mean(0), part.var(0), scipy.stats.skew(part), scipy.stats.kurtosis(part)], -1
        )
        np.testing.assert_allclose(found[graph].numpy(), expected, rtol=1e-12, atol=1e-12)


def test_large_offset_keeps_its_digits():
    """Raw power sums would lose everything here in float32."""
    z = torch.randn(1000, 1)
    shifted = moments(z + 1000.0, energy=torch.ones(1, 1))[0, 0, 1:]
    torch.testing.assert_close(shifted, moments(z)[0, 0, 1:], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("kind", ["mean", "sum"])
@pytest.mark.parametrize("order", [1, 3, 6])
def test_power_moments(kind, order):
    z = torch.randn(7, 2, dtype=torch.float64)
    powers = torch.stack([z.abs() ** q for q in range(1, order + 1)], -1)
    expected = getattr(powers, kind)(0, keepdim=True)
    torch.testing.assert_close(moments(z, kind=kind, order=order), expected)


@pytest.mark.parametrize("signal", [torch.zeros(5, 1), torch.full((5, 1), 0.1), torch.ones(1, 1)])
def test_constants_are_silent(signal):
    z = signal.clone().requires_grad_()
    out = moments(z)
    assert (out[..., 2:] == 0).all()
    out[..., 2:].sum().backward()
    assert (z.grad == 0).all()


def test_smooth_across_the_floor():
    """Gradients are right where skewness and kurtosis fade in (variance of 1 to 4 floors)."""
    base = torch.tensor([[0.0], [0.0], [1.0], [-0.4]], dtype=torch.float64)
    floor = 1e-6
    for ratio in (0.9, 1.0, 1.1, 2.0, 3.9, 4.0, 4.1):
        scale = (ratio * floor / base.var(0, correction=0)).sqrt()
        z = (base * scale).requires_grad_()
        energy = torch.ones(1, 1, dtype=torch.float64)
        assert torch.autograd.gradcheck(
            lambda z, energy=energy: moments(z, energy=energy)[..., 2:], (z,), eps=1e-9, atol=1e-3
        )


def test_as_pyg_aggregation():
    x = torch.rand(6, 2)
    index, ptr = torch.tensor([0, 0, 0, 1, 1, 3]), torch.tensor([0, 3, 5, 5, 6])
    aggr = Moments(order=2)
    by_index = aggr(x, index, dim_size=4)
    assert by_index.shape == (4, 4)
    assert torch.equal(by_index, aggr(x, ptr=ptr))
    torch.testing.assert_close(by_index[0, [0, 2]], x[:3].mean(0))
    assert (by_index[2] == 0).all()
    both = MultiAggregation([Moments("mean", 1), "max"])(x, index)
    assert both.shape == (4, 4)
    assert repr(aggr) == "Moments(normalized, order=2)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("normalized", 5), "between 1 and 4"),
        (("sum", 0), "at least 1"),
        (("median", 2), "kind must be"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Moments(*arguments)
