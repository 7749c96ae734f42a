"""Graph-level features go wherever their graphs go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from legs.data import DataError, GraphDataset, from_objects, load_dataset, save_dataset
from legs.data.merge import merge_equivalent
from legs.data.validate import check_dataset


@pytest.fixture
def data() -> GraphDataset:
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [
        Data(x=torch.ones(2, 1), edge_index=edges, graph_features=torch.tensor([[k, -k]]))
        for k in range(4)
    ]
    return replace(GraphDataset.from_pyg(graphs), graph_feature_names=("plus", "minus"))


def test_they_are_gathered_from_pyg_and_given_back(data: GraphDataset) -> None:
    assert data.graph_dim == 2
    assert repr(data) == "GraphDataset('', graphs=4, nodes=8, in_channels=1, graph_dim=2)"
    assert torch.equal(data[3].graph_features, torch.tensor([[3.0, -3.0]]))
    again = GraphDataset.from_pyg(data.to_pyg())
    assert torch.equal(again.graph_features, data.graph_features)
    without = [Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0).long()), *data.to_pyg()]
    assert GraphDataset.from_pyg(without).graph_dim is None


def test_subsets_and_batches_have_those_of_their_graphs(data: GraphDataset) -> None:
    part = data[[2, 0, 2]]
    assert part.graph_features[:, 0].tolist() == [2, 0, 2]
    assert part.graph_feature_names == ("plus", "minus")
    double = data.with_x(data.x.double()).batch([1, 3])
    assert double.graph_features.dtype == torch.float64
    assert double.graph_features[:, 1].tolist() == [-1, -3]
    assert torch.equal(merge_equivalent(data).data.graph_features, data.graph_features)
    assert torch.equal(from_objects(data, features="degree").graph_features, data.graph_features)


def test_they_are_saved(data: GraphDataset, tmp_path: Path) -> None:
    data = replace(data, graph_features=data.graph_features.clone())
    data.graph_features[0, 0] = float("nan")  # missing
    again = load_dataset(save_dataset(tmp_path / "set.safetensors", data))
    assert torch.equal(again.graph_features.nan_to_num(9), data.graph_features.nan_to_num(9))
    assert again.graph_feature_names == data.graph_feature_names


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"graph_features": torch.zeros(3, 2)}, "no tensor of torch.float32 and shape"),
        ({"graph_features": torch.zeros(4, 2).long()}, "no tensor of torch.float32 and shape"),
        ({"graph_features": torch.full((4, 2), torch.inf)}, "are infinite"),
        ({"graph_feature_names": ("one",)}, "there are 1 graph_feature_names, not 2"),
        ({"graph_features": None}, "there are 2 graph_feature_names, not 0"),
    ],
)
def test_those_that_do_not_fit_are_refused(
    data: GraphDataset, fields: dict[str, object], reason: str
) -> None:
    check_dataset(data)
    with pytest.raises(DataError, match=reason):
        check_dataset(replace(data, **fields))
