import pytest
import torch

from legs import LEGSNet, Scattering
from legs.nn import FCN, RBF, Attention
from tests.graphs import path_graph, ring


def classify_rings(head, steps=60):
    """Rings or paths of 6 to 12 nodes, told apart from a constant signal and a bump."""
    graphs = [make(size) for size in range(6, 13) for make in (ring, path_graph)]
    labels = torch.tensor([0, 1] * 7)
    x = torch.cat([torch.nn.functional.one_hot(torch.tensor(0), g.num_nodes) for g in graphs])
    x = torch.stack([x.float(), torch.ones(len(x))], dim=1)
    sizes = torch.tensor([g.num_nodes for g in graphs])
    offsets = torch.cumsum(sizes, 0) - sizes
    edges = torch.cat([g.edge_index + o for g, o in zip(graphs, offsets, strict=True)], dim=1)
    batch = torch.arange(14).repeat_interleave(sizes)
    scattering = Scattering(2)
    model = LEGSNet(scattering, head(scattering))
    if isinstance(model.head, RBF):
        with torch.no_grad():
            model.head.init_anchors(scattering(x, edges, batch=batch))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, edges, batch=batch), labels)
        loss.backward()
        optimizer.step()
    model.eval()
    return model, (model(x, edges, batch=batch).argmax(1) == labels).float().mean()


@pytest.mark.parametrize(
    "head",
    [
        lambda s: FCN(s.out_channels, 2),
        lambda s: RBF(s.out_channels, 2, num_anchors=14),
        lambda s: Attention(s.out_channels, 2, num_paths=s.num_paths),
    ],
    ids=["fcn", "rbf", "attention"],
)
def test_learns(head):
    model, accuracy = classify_rings(head)
    assert accuracy == 1
    assert model.scattering.selection.theta.grad.abs().max() > 0


def test_head_must_fit():
    with pytest.raises(ValueError, match="head takes 5 features, but scattering gives 128"):
        LEGSNet(Scattering(2), FCN(5, 2))


def test_any_module_as_head_and_reset():
    scattering = Scattering(2, aggr=None)
    model = LEGSNet(scattering, torch.nn.Linear(scattering.out_channels, 3))
    out = model(torch.rand(5, 2), path_graph(5).edge_index)
    assert out.shape == (5, 3)
    model.reset_parameters()
    assert not torch.equal(model(torch.rand(5, 2), path_graph(5).edge_index), out)
