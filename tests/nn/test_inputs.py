"""Graphs in other forms, features out in other shapes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import LineGraph, ToSparseTensor

from legs import Scattering
from legs.data import hypergraph, point_graph
from legs.nn import AddScattering, WaveletConv
from legs.report import plots
from tests.nn.test_operators import directed_graph, undirected_graph


def forms(edge_index, weight):
    """The same graph in every form, with what else a call takes."""
    matrix = scipy.sparse.coo_array((weight.numpy(), edge_index.numpy()), (9, 9))
    coo = torch.sparse_coo_tensor(edge_index, weight, (9, 9), check_invariants=True)
    return {
        "tensor": (edge_index, weight),
        "EdgeIndex": (EdgeIndex(edge_index, sparse_size=(9, 9)), weight),
        "torch COO": (coo.coalesce(), None),
        "torch CSR": (coo.to_sparse_csr(), None),
        "scipy CSR": (matrix.tocsr(), None),
        "scipy COO": (scipy.sparse.coo_matrix(matrix), None),
    }


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("operator", ["walk", "directed"])
def test_every_form_of_a_graph(operator):
    edge_index, weight = directed_graph() if operator == "directed" else undirected_graph()
    x = torch.rand(9, 2, dtype=torch.float64)
    module = Scattering(2, scales="dyadic", operator=operator).double()
    conv = WaveletConv(2, 3, operator=operator).double()
    graphs = forms(edge_index, weight)
    expected = module(x, edge_index, weight), conv(x, edge_index, weight)
    for name, graph in graphs.items():
        torch.testing.assert_close(module(x, *graph), expected[0], msg=name)
        torch.testing.assert_close(conv(x, *graph), expected[1], msg=name)
        bands = module.bank(x, *graph)
        torch.testing.assert_close(bands, module.bank(x, edge_index, weight), msg=name)
        torch.testing.assert_close(module.inverse(bands, *graph), x, rtol=0, atol=1e-8)
        dense = module.matrices(*graph, 9)
        torch.testing.assert_close(dense, module.matrices(edge_index, weight, 9), msg=name)
    matrix, _ = graphs["scipy CSR"]
    with pytest.raises(ValueError, match="leave edge_weight out"):
        module(x, matrix, weight)
    with pytest.raises(ValueError, match=r"shape \[9, 9\], but x has 8 rows"):
        module(x[:8], matrix)
    with pytest.raises(TypeError, match="got list"):
        module(x, edge_index.tolist())


def test_channels_of_the_first_input():
    edge_index, weight = undirected_graph()
    x = torch.rand(9, 3)
    module = Scattering(-1)
    with pytest.raises(RuntimeError, match="those of the first input"):
        module.out_channels  # noqa: B018
    out = module(x, edge_index, weight)
    assert module.in_channels == 3 and module.columns() == Scattering(3).columns()
    torch.testing.assert_close(out, Scattering(3)(x, edge_index, weight))
    with pytest.raises(ValueError, match="in_channels=3"):
        module(x[:, :2], edge_index, weight)


def test_unflattened():
    edge_index, weight = undirected_graph()
    x, batch = torch.rand(9, 2), torch.zeros(9, dtype=torch.long)
    for options, shape in (({"aggr": None}, (9, 16, 2)), ({}, (1, 16, 2, 4))):
        flat = Scattering(2, **options)(x, edge_index, weight, batch)
        out = Scattering(2, flatten=False, **options)(x, edge_index, weight, batch)
        assert out.shape == shape
        torch.testing.assert_close(out.flatten(1), flat)


@pytest.mark.filterwarnings("ignore:Sparse C")
def test_transform():
    edge_index, weight = undirected_graph()
    data = Data(x=torch.rand(9, 2), edge_index=edge_index, edge_weight=weight.float())
    module = Scattering(2, scales="dyadic")
    out = AddScattering(module)(data)
    torch.testing.assert_close(out.scattering, module(data.x, edge_index, data.edge_weight))
    assert "scattering" not in data and not out.scattering.requires_grad
    assert Batch.from_data_list([out, out]).scattering.shape == (2, module.out_channels)
    sparse = ToSparseTensor(attr="edge_weight", layout=torch.sparse_csr)(data)
    torch.testing.assert_close(AddScattering(module)(sparse).scattering, out.scattering)
    nodes = Scattering(2, scales="dyadic", aggr=None)
    wide = AddScattering(nodes, attr_name=None)(data)
    expected = nodes(data.x, edge_index, data.edge_weight)
    torch.testing.assert_close(wide.x, torch.cat([data.x, expected], dim=1))
    with pytest.raises(ValueError, match="need aggr=None"):
        AddScattering(module, attr_name=None)


def test_point_graph():
    points = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3)))
    edge_index, weight = point_graph(points, k=4)
    distance = torch.cdist(points, points)
    near = distance.fill_diagonal_(torch.inf).topk(4, largest=False).indices
    dense = torch.zeros(40, 40, dtype=torch.bool).scatter(1, near, True)
    dense = dense | dense.T
    assert torch.equal(dense.nonzero().T, edge_index)
    width = distance[edge_index[0], edge_index[1]].median()
    expected = torch.exp(-((distance / width) ** 2) / 2)[edge_index[0], edge_index[1]]
    torch.testing.assert_close(weight, expected)
    Scattering(3)(points.float(), edge_index, weight)
    with pytest.raises(ValueError, match="sigma must be positive"):
        point_graph(torch.zeros(5, 2), k=2)


def test_hypergraph():
    x = torch.rand(4, 2)
    members = torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])
    signals, edge_index = hypergraph(x, members)
    torch.testing.assert_close(signals[4:], torch.stack([x[:3].mean(0), x[2:].mean(0)]))
    module = Scattering(
        2, scales=[2], operator="row", order=1, lowpass=True, aggr=None, laziness=0.5
    )
    # The walk of two steps from node to hyperedge to node is that of the hypergraph.
    incidence = torch.zeros(4, 2).index_put((members[0], members[1]), torch.ones(5))
    walk = (incidence / incidence.sum(1, keepdim=True)) @ (incidence / incidence.sum(0)).T
    step = incidence / incidence.sum(1, keepdim=True) @ signals[4:]
    expected = (x + 2 * step + walk @ x) / 4
    torch.testing.assert_close(module(signals, edge_index)[:4, -4:-2], expected)


def test_edge_features_on_the_line_graph():
    """As the guide has it: PyG's transform makes edges nodes, with edge_attr as signals."""
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    attr = torch.tensor([[1.0], [1.0], [2.0], [2.0], [4.0], [4.0]])
    line = LineGraph()(Data(edge_index=edge_index, edge_attr=attr, num_nodes=4))
    out = Scattering(1, scales=[1], aggr=None)(line.x, line.edge_index)
    assert out.shape == (3, 2)
    torch.testing.assert_close(out[:, 0], line.x[:, 0])


def test_filter_bank_of_a_module():
    module = Scattering(1, operator="heat")
    bank = plots.filter_bank(module)
    lower, upper = module.frame_bounds()
    assert bank.lower == pytest.approx(float(lower)) and bank.upper == pytest.approx(float(upper))
    assert bank.frequency[-1] == pytest.approx(1 - np.exp(-2))
    tensor = plots.filter_bank(Scattering(1).scale_weights())
    array = plots.filter_bank(Scattering(1).scale_weights().detach().double().numpy())
    np.testing.assert_array_equal(tensor.responses, array.responses)
    with pytest.raises(ValueError, match="pass those of one"):
        plots.filter_bank(Scattering(1, learn_laziness="channel"))
