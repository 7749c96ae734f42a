import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from legs.nn import GraphBatchNorm


def pair(channels=5):
    ours, theirs = GraphBatchNorm(channels).double(), torch.nn.BatchNorm1d(channels).double()
    with torch.no_grad():
        for p in (ours, theirs):
            p.weight.copy_(torch.linspace(0.5, 2, channels))
            p.bias.copy_(torch.linspace(-1, 1, channels))
    return ours, theirs


def test_is_torchs_batch_norm():
    ours, theirs = pair()
    for _ in range(5):
        x = 3 + 2 * torch.randn(8, 5, dtype=torch.float64)
        torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_mask_equals_leaving_out():
    ours, theirs = pair()
    x, mask = torch.randn(8, 5, dtype=torch.float64), torch.tensor([True, False] * 4)
    torch.testing.assert_close(ours(x, mask)[mask], theirs(x[mask]))
    torch.testing.assert_close(ours.running_var, theirs.running_var)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_graphs_use_running_averages(count):
    norm, _ = pair()
    norm.running_mean.fill_(2.0)
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    out = norm(x, torch.arange(4) < count)
    assert (norm.running_mean == 2).all()
    torch.testing.assert_close(out, norm.eval()(x))
    out.sum().backward()
    assert x.grad.isfinite().all()


def test_models_with_their_own_masks_at_once():
    """Stacked, with one mask a model: outputs, gradients and averages as one by one."""
    models = [GraphBatchNorm(5).double() for _ in range(3)]
    singles = [GraphBatchNorm(5).double() for _ in range(3)]
    x = torch.randn(9, 5, dtype=torch.float64)
    masks = torch.rand(3, 9) < 0.6
    parameters, buffers = stack_module_state(models)
    base = models[0]
    out = vmap(lambda p, b, m: functional_call(base, (p, b), (x, m)))(parameters, buffers, masks)
    out.square().sum().backward()
    for i, single in enumerate(singles):
        expected = single(x, masks[i])
        torch.testing.assert_close(out[i], expected)
        expected.square().sum().backward()
        torch.testing.assert_close(parameters["weight"].grad[i], single.weight.grad)
        torch.testing.assert_close(buffers["running_var"][i], single.running_var)


def known(x, graphs=None):
    """In evaluation, with the mean and variance of ``x`` itself."""
    norm = GraphBatchNorm(x.shape[1], eps=1e-12).double().eval()
    norm.running_mean.copy_(x.mean(0))
    norm.running_var.copy_(x.var(0))
    if graphs is not None:
        norm.bound_by(graphs)
    return norm


def test_no_training_graph_is_beyond_the_bound():
    x = torch.randn(50, 4, dtype=torch.float64).exp()
    x[:, 1], x[:, 2] = 0, 3.0
    x[7, 1] = 1.0  # as far from the others as one of fifty can be
    bounded, free = known(x, graphs=50), known(x)
    assert torch.equal(bounded(x), free(x))
    assert free(x).abs().max() > 0.98 * 49**0.5


def test_what_training_never_showed_is_bounded():
    x = torch.randn(50, 4, dtype=torch.float64)
    x[:, 1] = 0  # an element that no training molecule has
    new = torch.zeros(1, 4, dtype=torch.float64)
    new[0, 1] = 5.0
    new.requires_grad_()
    assert known(x)(new).abs().max() > 1e6
    out = known(x, graphs=50)(new)
    assert out.abs().max() <= 7
    out.sum().backward()
    assert new.grad.isfinite().all()


def test_models_saved_before_there_was_a_bound():
    norm = GraphBatchNorm(3)
    state = {name: value for name, value in norm.state_dict().items() if name != "reach"}
    norm.load_state_dict(state)
    assert norm.reach == float("inf") and "reach" not in state
