"""Edge features: bonds stay with their edges, from the reader to predictions."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import legs
from legs.data import from_objects
from legs.data.catalog.cache import load_dataset, save_dataset
from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.merge import longest_first, merge_equivalent, without_loops
from legs.explain import attribute
from legs.models import create
from legs.training import fit
from legs.training.cv.models import Job, Shared, train_networks
from legs.training.inputs import embed
from legs.training.stacked.replay import FilledBatches
from tests.training.filled import gather
from tests.training.made import QUICK, made_data, made_split

SMALL = {"hidden_channels": 8, "num_layers": 2, "num_scales": 3, "dropout": 0.0}
SMILES = ["CCO", "c1ccccc1C=O", "CC#N", "C", "C1CCCCC1", "C=CC=C", "OC(=O)c1ccncc1", "CCN", "CS"]


def signature(x, edge_index):
    """Edge features that say which edge they are of: from the features of its ends."""
    source, target = edge_index
    return torch.stack([x[source, 1], x[target, 1]], dim=1)


def with_edges(data):
    whole = data.whole()
    return replace(data, edge_attr=signature(whole.x, whole.edge_index))


def assert_in_step(data):
    whole = data.whole()
    assert torch.equal(whole.edge_attr, signature(whole.x, whole.edge_index))


@pytest.fixture(scope="module")
def data():
    return with_edges(made_data())


def test_stays_with_its_edges(data, tmp_path):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    assert_in_step(data.subset(order[:20]))
    assert_in_step(GraphDataset.from_pyg(data.subset(order).to_pyg()))
    assert_in_step(longest_first(data))
    loaded = load_dataset(save_dataset(tmp_path / "data.safetensors", data))
    assert torch.equal(loaded.edge_attr, data.edge_attr)
    assert merge_equivalent(data).data.edge_attr is None
    # A shuffled list of edges is sorted together with its features.
    whole = data.whole()
    shuffled = torch.randperm(whole.edge_index.shape[1])
    edges, attr = whole.edge_index[:, shuffled], whole.edge_attr[shuffled]
    assert_in_step(GraphDataset.from_edges(data.x, data.ptr, edges, edge_attr=attr))


def test_loops_are_dropped_with_their_features():
    x, edges = torch.rand(3, 2), torch.tensor([[0, 0, 1, 1, 2], [0, 1, 0, 2, 1]])
    attr = signature(x, edges)
    data = GraphDataset.from_edges(x, torch.tensor([0, 3]), edges, edge_attr=attr)
    assert_in_step(without_loops(data))


def test_filled_batches_gather_the_same_edges(data):
    filled = FilledBatches(data, 10)
    index = torch.zeros(filled.slots, dtype=torch.long)
    index[:7] = torch.tensor([3, 50, 1, 1, 20, 9, 40])
    valid = torch.arange(filled.slots) < 7
    filled.grow(index[:7])
    batch, plain = gather(filled, index, valid), data.batch(index[:7])
    edges = plain.edge_index.shape[1]
    assert torch.equal(batch.edge_index[:, :edges], plain.edge_index)
    assert torch.equal(batch.edge_attr[:edges], plain.edge_attr)
    assert batch.edge_attr.isfinite().all()


def test_bonds_against_rdkit():
    chem = pytest.importorskip("rdkit.Chem")
    data = from_objects(SMILES)
    assert data.edge_attr.dtype == torch.uint8
    kinds = {"SINGLE": 0, "DOUBLE": 1, "TRIPLE": 2, "AROMATIC": 3}
    for text, graph in zip(SMILES, data, strict=True):
        mol = chem.MolFromSmiles(text)
        assert graph.num_edges == 2 * mol.GetNumBonds()
        for (a, b), row in zip(graph.edge_index.T.tolist(), graph.edge_attr, strict=True):
            bond = mol.GetBondBetweenAtoms(a, b)
            wanted = torch.zeros(6)
            wanted[kinds[str(bond.GetBondType())]] = 1
            wanted[4], wanted[5] = bond.GetIsConjugated(), bond.IsInRing()
            assert torch.equal(row, wanted)


def test_reads_pyg_graphs():
    edges = torch.tensor([[0, 1], [1, 0]])
    one = Data(x=torch.rand(2, 1), edge_index=edges, edge_attr=torch.tensor([3, 5]))
    dot = Data(x=torch.rand(1, 1), edge_index=torch.empty(2, 0).long())
    assert from_objects([one, dot]).edge_attr.tolist() == [[5.0], [3.0]]  # sorted by target
    bare = Data(x=torch.rand(2, 1), edge_index=edges)
    with pytest.raises(DataError, match="graph 1 has no edge_attr, others have"):
        from_objects([one, bare])
    wrong = Data(x=torch.rand(2, 1), edge_index=edges, edge_attr=torch.ones(3, 2))
    with pytest.raises(DataError, match="graph 0 has 3 rows of edge_attr for 2 edges"):
        from_objects([wrong])
    wide = Data(x=torch.rand(2, 1), edge_index=edges, edge_attr=torch.ones(2, 2))
    with pytest.raises(DataError, match="graph 1 has 2 edge features, graph 0 1"):
        from_objects([one, wide])
    broken = Data(x=torch.rand(2, 1), edge_index=edges, edge_attr=torch.tensor([1, torch.nan]))
    with pytest.raises(DataError, match="graph 0: an edge feature at node 0 is not a finite"):
        from_objects([broken])


def test_fit_reads_edge_features_by_default(data, tmp_path):
    fitted = fit(data, "legs-deep", made_split(), QUICK, model_options=SMALL)
    predictor = fitted.predictor
    assert predictor.network.edge_dim == 2
    predictor.save(tmp_path / "model")
    loaded = legs.load(tmp_path / "model")
    answers = predictor.predict(data)
    assert torch.equal(loaded.predict(data), answers)
    # One graph at a time, by the bare network.
    network = predictor.network.eval()
    for k in range(0, len(data), 7):
        g = data[k]
        with torch.no_grad():
            out = network(g.x, g.edge_index, edge_attr=g.edge_attr)
        torch.testing.assert_close(predictor.task.answers(out)[0], answers[k])
        embedding = network.embed(g.x, g.edge_index, edge_attr=g.edge_attr)[0]
        torch.testing.assert_close(predictor.embed(data)[k], embedding.detach())
    # Nodes of a graph in another order.
    backwards = torch.cat(
        [ptr + torch.arange(n).flip(0) for ptr, n in zip(data.ptr, data.sizes, strict=False)]
    )
    whole, place = data.whole(), backwards.argsort()
    moved = GraphDataset.from_edges(
        data.x[backwards], data.ptr, place[whole.edge_index], edge_attr=whole.edge_attr
    )
    moved = replace(moved, feature_names=data.feature_names)
    torch.testing.assert_close(loaded.predict(moved), answers)
    changed = replace(data, edge_attr=data.edge_attr.flip(0))
    assert not torch.allclose(loaded.predict(changed), answers)
    with pytest.raises(DataError, match=r"reads 2 edge features \(edge_dim=2\), but .* has none"):
        loaded.predict(replace(data, edge_attr=None))


def test_can_be_switched_off(data):
    off = fit(data, "legs-deep", made_split(), QUICK, model_options={**SMALL, "edge_dim": None})
    bare = replace(data, edge_attr=None)
    never = fit(bare, "legs-deep", made_split(), QUICK, model_options=SMALL)
    assert torch.equal(off.predictor.predict(data), never.predictor.predict(bare))
    with pytest.raises(DataError, match="edge_dim=2"):
        fit(bare, "legs-deep", made_split(), QUICK, model_options={**SMALL, "edge_dim": 2})


@pytest.mark.parametrize("model", ["legs-fcn", "gin", "gcn-legs-fixed"])
def test_other_networks_are_unaffected(data, model):
    bare = replace(data, edge_attr=None)
    one, other = (fit(each, model, made_split(), QUICK).predictor for each in (data, bare))
    assert torch.equal(one.predict(data), other.predict(bare))
    if model == "legs-fcn":
        assert torch.equal(embed(one.network, data), embed(one.network, bare))


def test_stacked_is_sequential(data):
    jobs = [Job(k, made_split(), dict(SMALL)) for k in range(2)]
    shared = Shared(data, replace(QUICK, precision="float64"))
    stacked, alone = (
        train_networks("legs-deep", jobs, shared, strategy)
        for strategy in ("stacked", "sequential")
    )
    bare = train_networks(
        "legs-deep", jobs[:1], replace(shared, data=replace(data, edge_attr=None))
    )
    for a, b in zip(stacked, alone, strict=True):
        torch.testing.assert_close(a.answers, b.answers, rtol=1e-5, atol=1e-6)
    assert stacked[0].parameters > bare[0].parameters


def test_explained_with_edge_features(data, tmp_path):
    pytest.importorskip("pandas")
    from legs.explain.runs import drawn_graphs

    fitted = fit(
        data, "legs-deep", made_split(), QUICK, model_options=SMALL, directory=tmp_path / "run"
    )
    graphs = drawn_graphs(tmp_path / "run" / "shown.npz")
    assert len(graphs) > 1
    for graph in graphs:
        assert torch.equal(graph.edge_attr, signature(graph.x, graph.edge_index))
    shares = attribute(fitted.predictor, graphs[0], baseline="mean")
    assert np.isfinite(shares.nodes).all()


def test_molecules_from_file_to_prediction(tmp_path):
    pytest.importorskip("rdkit")
    pytest.importorskip("pandas")
    from legs.cli import main

    many = [f"{'C' * k}{tail}" for k in range(1, 7) for tail in ("O", "=O", "C#N", "c1ccccc1")]
    rows = [f"{text},{len(text) + 0.5}" for text in many]
    (tmp_path / "data.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    common = ["--model", "legs-deep", "--epochs", "2", "--set", "hidden_channels=8"]
    words = ["train", str(tmp_path / "data.csv"), "--target", "y", *common]
    assert main([*words, "-o", str(tmp_path / "run")]) == 0
    assert legs.load(tmp_path / "run" / "model").network.edge_dim == 6
    out = str(tmp_path / "out.csv")
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "data.csv"), "-o", out]) == 0
    with open(out, newline="", encoding="utf-8") as file:
        predictions = [float(row["predicted:y"]) for row in csv.DictReader(file)]
    data = legs.data.load(tmp_path / "data.csv", target="y")
    predictor = legs.load(tmp_path / "run" / "model")
    wanted = predictor.predict(data)[:, 0].numpy()
    np.testing.assert_allclose(predictions, wanted, rtol=1e-5)
    assert main([*words, "--set", "edge_dim=null", "-o", str(tmp_path / "off")]) == 0
    assert legs.load(tmp_path / "off" / "model").network.edge_dim is None


def test_estimators():
    pytest.importorskip("rdkit")
    from legs.sklearn import LEGSRegressor

    options = {"max_epochs": 2, "hidden_channels": 8, "num_layers": 1}
    y = [float(len(text)) for text in SMILES]
    reads = LEGSRegressor("legs-deep", **options).fit(SMILES, y)
    assert reads.network_.edge_dim == 6
    assert reads.predict(SMILES).shape == (len(SMILES),)
    off = LEGSRegressor("legs-deep", edge_features=False, **options).fit(SMILES, y)
    assert off.network_.edge_dim is None
    assert off.predict(SMILES).shape == (len(SMILES),)


def test_networks_that_read_none_have_no_edge_dim():
    assert create("gcn", 2, 2).edge_dim is None
    assert create("legs-deep", 2, 2).edge_dim is None
