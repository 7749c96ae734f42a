"""Numbers of nodes and edges, and columns of them."""

import networkx as nx
import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from legs import functional as fn
from legs.data import GraphDataset, merge_equivalent
from legs.explain.attributing import path_columns
from legs.models import create
from legs.nn import Moments, Scattering
from legs.sklearn import GeometricScattering
from tests.backends import prefer

GRAPHS = [nx.path_graph(4), nx.star_graph(6), nx.complete_graph(5), nx.empty_graph(2)]
SIZES = torch.tensor([[4.0, 3.0], [7.0, 6.0], [5.0, 10.0], [2.0, 0.0]])


def together():
    joined = nx.disjoint_union_all(GRAPHS)
    edges = torch.tensor(list(nx.to_directed(joined).edges)).T
    ptr = torch.tensor([0, *torch.tensor([len(g) for g in GRAPHS]).cumsum(0).tolist()])
    return GraphDataset.from_edges(torch.ones(len(joined), 2), ptr, edges)


def test_counts():
    whole = together().whole()
    assert torch.equal(fn.graph_size(whole.edge_index, whole.batch, len(whole.x), 4), SIZES)


def test_counts_of_merged_nodes():
    merged, multiplicity = merge_equivalent(together())
    whole = merged.whole()
    known = (whole.edge_index, whole.batch, len(whole.x), 4, whole.edge_weight, multiplicity)
    assert len(multiplicity) < 10
    assert torch.equal(fn.graph_size(*known), SIZES)


@pytest.mark.parametrize("aggr", ["moments", "max", Moments("sum", 2)])
@pytest.mark.parametrize("way", ["reference", "auto"])
def test_the_last_columns_are_the_size(aggr, way):
    whole = together().whole()
    plain, sized = (
        Scattering(2, num_scales=3, aggr=aggr, append_graph_size=size) for size in (False, True)
    )
    assert sized.out_channels == plain.out_channels + 2
    assert [column.name for column in sized.columns()[-2:]] == ["nodes", "edges"]
    with prefer(way):
        expected, found = plain(*whole[:5]), sized(*whole[:5])
    torch.testing.assert_close(found[:, :-2], expected)
    assert torch.equal(found[:, -2:], SIZES)


def test_half_precision_and_a_single_graph():
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    found = Scattering(1, append_graph_size=True)(torch.rand(3, 1, dtype=torch.bfloat16), path)
    assert found.dtype == torch.bfloat16 and found[0, -2:].tolist() == [3, 2]


def test_many_models_and_saving(tmp_path):
    whole = together().whole()
    models = [
        create("legs-fcn", 2, 3, num_scales=3, append_graph_size=True).eval() for _ in range(2)
    ]
    state = stack_module_state(models)

    def run(parameters, buffers):
        return functional_call(models[0], (parameters, buffers), whole[:5])

    for found, model in zip(vmap(run)(*state), models, strict=True):
        torch.testing.assert_close(found, model(*whole[:5]))
    models[0].save(tmp_path / "model")
    from legs import load

    again = load(tmp_path / "model")
    torch.testing.assert_close(again(*whole[:5]), models[0](*whole[:5]))
    assert path_columns(again, again.scattering.out_channels)[-1][0] == "size"


def test_what_cannot_be():
    with pytest.raises(ValueError, match="nodes have no size"):
        Scattering(1, aggr=None, append_graph_size=True)
    with pytest.raises(ValueError, match="attention head"):
        create("legs-attn-fcn", 1, 2, append_graph_size=True)


def test_scikit_learn():
    scattering = GeometricScattering(features="degree", append_graph_size=True)
    found = scattering.fit_transform(GRAPHS)
    assert found[:, -2:].tolist() == SIZES.tolist()
    assert scattering.get_feature_names_out()[-2:].tolist() == ["nodes", "edges"]
