import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from legs.nn import FCN, RBF, Attention

HEADS = [FCN(16, 3), RBF(16, 3, num_anchors=8), Attention(16, 3, num_paths=4, token_channels=8)]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_shapes_gradients_and_state(head):
    x = torch.randn(10, 16)
    out = head(x)
    assert out.shape == (10, 3)
    out.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())
    before = {k: v.clone() for k, v in head.state_dict().items()}
    head.reset_parameters()
    changed = {k for k, v in head.state_dict().items() if not torch.equal(v, before[k])}
    assert any("weight" in k or "anchors" in k for k in changed)
    head.load_state_dict(before)
    head.eval()
    assert torch.equal(head(x), head(x))


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_maps_over_models(head):
    models = [
        type(head)(16, 3, **({"num_paths": 4} if isinstance(head, Attention) else {}))
        for _ in range(3)
    ]
    models = [model.eval() for model in models]
    state = stack_module_state(models)
    x = torch.randn(5, 16)
    found = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(*state)
    expected = torch.stack([model(x) for model in models])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_fcn_is_the_papers():
    names = [type(module).__name__ for module in FCN(16, 3).children()]
    assert names == ["GraphBatchNorm", "Linear", "LeakyReLU", "Dropout", "Linear"]
    assert FCN(16, 3).hidden.out_features == 128


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_masked_graphs_do_not_matter(head):
    """What lies outside the mask changes no other graph's output and no running average."""
    x, mask = torch.randn(10, 16), torch.arange(10) < 7
    other = torch.where(mask[:, None], x, 100 * torch.randn(10, 16))
    head.reset_parameters()
    state = {k: v.clone() for k, v in head.state_dict().items()}
    head.train()
    first, first_state = head(x, mask)[mask], dict(head.state_dict())
    first_state = {k: v.clone() for k, v in first_state.items()}
    head.load_state_dict(state)
    torch.testing.assert_close(head(other, mask)[mask], first)
    for name, value in head.state_dict().items():
        torch.testing.assert_close(value, first_state[name])


def test_rbf_formula():
    head = RBF(4, 2, num_anchors=3, gamma=0.7, learn_gamma=False).eval()
    x = torch.randn(5, 4)
    normal = (x - head.norm.running_mean) / (head.norm.running_var + head.norm.eps).sqrt()
    kernel = torch.exp(-0.7 * torch.cdist(normal, head.anchors) ** 2)
    torch.testing.assert_close(head(x), head.linear(kernel), rtol=1e-4, atol=1e-5)
    assert not head.log_gamma.requires_grad


def test_rbf_anchors_are_normalised_training_features():
    features = 3 + 5 * torch.randn(50, 6)
    head = RBF(6, 2, num_anchors=20)
    head.init_anchors(features, torch.Generator().manual_seed(1))
    normal = (features - features.mean(0)) / (features.var(0, correction=0) + 1e-5).sqrt()
    assert ((head.anchors[:, None] - normal).norm(dim=-1).amin(1) < 1e-5).all()
    assert len(head.anchors.unique(dim=0)) == 20
    again = RBF(6, 2, num_anchors=20)
    again.init_anchors(features, torch.Generator().manual_seed(1))
    assert torch.equal(head.anchors, again.anchors)


def test_rbf_with_fewer_graphs_than_anchors_uses_every_graph():
    features = torch.randn(7, 6)
    head = RBF(6, 2, num_anchors=16)
    head.init_anchors(features)
    counts = head.anchors.unique(dim=0, return_counts=True)[1]
    assert len(counts) == 7
    assert counts.max() - counts.min() <= 1


def test_rbf_gamma_stays_useful_in_many_dimensions():
    """By default some anchors reach every graph; γ = 1 underflows for many pairs."""
    features = torch.randn(64, 200)
    learned, paper = RBF(200, 2), RBF(200, 2, gamma=1.0)
    for head in (learned, paper):
        head.init_anchors(features)

    def kernel(head):
        distance = torch.cdist(head.norm(features), head.anchors) ** 2
        return torch.exp(-head.log_gamma.exp() * distance)

    assert (kernel(learned)[:, :32] > 1e-5).all()
    assert (kernel(paper) < 1e-30).float().mean() > 0.5


def test_rbf_anchors_start_from_wide_to_narrow():
    gamma = RBF(10, 2, num_anchors=4, gamma=(0.1, 0.8)).log_gamma.exp()
    torch.testing.assert_close(gamma, torch.tensor([0.1, 0.2, 0.4, 0.8]))
    assert RBF(10, 2, gamma=0.3).log_gamma.exp().allclose(torch.tensor(0.3))
    torch.testing.assert_close(RBF(10, 2).log_gamma.exp()[[0, -1]], torch.tensor([0.1, 6.4]))


def test_attention_tells_paths_apart():
    """Swapping two paths' features changes the answer: tokens know their path."""
    head = Attention(16, 3, num_paths=4).eval()
    x = torch.randn(2, 16)
    swapped = x.view(2, 4, 4)[:, [1, 0, 2, 3]].reshape(2, 16)
    assert (head(x) - head(swapped)).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RBF(4, 2, gamma=0.0), "gamma must be a positive number"),
        (lambda: RBF(4, 2, gamma=(1.0, 2.0, 3.0)), "or two"),
        (lambda: RBF(4, 2).init_anchors(torch.rand(3, 5)), r"\[training graphs, 4\]"),
        (lambda: RBF(4, 2).init_anchors(torch.rand(0, 4)), r"\[training graphs, 4\]"),
        (lambda: Attention(10, 2, num_paths=3), "multiple of num_paths"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_attention_is_pytorchs():
    head = Attention(128, 2, num_paths=16).double()
    tokens = torch.rand(4, 16, 64, dtype=torch.float64)
    expected, _ = head.attention(tokens, tokens, tokens, need_weights=False)
    torch.testing.assert_close(head._attend(tokens), expected, rtol=0, atol=1e-12)
