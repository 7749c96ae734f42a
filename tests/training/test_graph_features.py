"""Graph-level features: from the data to the head, and with the model to new graphs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import legs
from legs.data.errors import DataError, DataWarning
from legs.explain import attribute
from legs.models import create
from legs.models.saving import ModelError
from legs.training import fit
from legs.training.cv.models import Job, Shared, train_networks
from legs.training.inputs import Inputs, embed
from legs.training.stacked.replay import FilledBatches
from tests.cli.molecules import read, rows, write
from tests.training.filled import gather
from tests.training.made import QUICK, made_data, made_split

SMALL = {"hidden_channels": 8, "num_layers": 1, "num_scales": 3, "dropout": 0.0}


def with_features(data):
    generator = torch.Generator().manual_seed(0)
    table = torch.rand(len(data), 4, generator=generator) * 10
    table[:, 3] = 1.0  # constant
    table[7, 0] = torch.nan
    return replace(data, graph_features=table, graph_feature_names=("a", "b", "c", "d"))


@pytest.fixture(scope="module")
def data():
    return with_features(made_data())


def test_the_head_reads_them_beside_the_readout(data):
    network = create("legs-deep", 2, 2, **SMALL, graph_dim=4).eval()
    bare = create("legs-deep", 2, 2, **SMALL)
    network.graph_scale.init_scale(data.graph_features)
    features = embed(network, data)
    assert features.shape[1] == embed(bare, replace(data, graph_features=None)).shape[1] + 8
    scaled = network.graph_scale(data.graph_features)
    torch.testing.assert_close(features[:, -8:], network.graph_lin(scaled).detach())
    with pytest.raises(ValueError, match=r"graph_features are missing.*graph_dim=4"):
        network(data[0].x, data[0].edge_index)
    assert create("gcn", 2, 2).graph_dim is None


def test_inputs_gather_them(data):
    network = create("legs-deep", 2, 2, **SMALL, graph_dim=4)
    _, more = Inputs(data, network, torch.device("cpu")).gather(torch.tensor([5, 2]))
    assert torch.equal(more["graph_features"], data.graph_features[[5, 2]])
    filled = FilledBatches(data, 10)
    index = torch.arange(filled.slots)
    filled.grow(index[:7])
    batch = gather(filled, index, index < 7)
    assert torch.equal(batch.graph_features[:7].nan_to_num(), data.graph_features[:7].nan_to_num())


@pytest.mark.parametrize("model", ["legs-deep", "gin-deep"])
def test_fit_scales_saves_and_predicts(data, model, tmp_path):
    options = {k: v for k, v in SMALL.items() if model == "legs-deep" or k != "num_scales"}
    predictor = fit(data, model, made_split(), QUICK, model_options=options).predictor
    scale, train = predictor.network.graph_scale, made_split().train
    assert scale.dropped(data.graph_feature_names)["constant"] == ["d"]
    wanted = data.graph_features[train].nanmedian(0).values
    assert torch.equal(scale.median, wanted)  # of the training graphs alone
    predictor.save(tmp_path / "model")
    loaded = legs.load(tmp_path / "model")
    answers = predictor.predict(data)
    assert answers.isfinite().all()
    assert torch.equal(loaded.predict(data), answers)
    changed = replace(data, graph_features=data.graph_features.flip(0))
    assert not torch.allclose(loaded.predict(changed), answers)
    bare = replace(data, graph_features=None, graph_feature_names=())
    with pytest.raises(DataError, match=r"reads 4 graph-level features \(graph_dim=4\), but"):
        loaded.predict(bare)


def test_off_without_them_or_by_an_option(data):
    bare = replace(data, graph_features=None, graph_feature_names=())
    never = fit(bare, "legs-deep", made_split(), QUICK, model_options=SMALL).predictor
    off = fit(data, "legs-deep", made_split(), QUICK, model_options={**SMALL, "graph_dim": None})
    assert torch.equal(never.predict(bare), off.predictor.predict(data))
    with pytest.raises(ValueError, match="gin reads no graph-level features; legs-deep does"):
        fit(data, "gin", made_split(), QUICK)


def test_a_feature_that_equals_a_target_is_dropped_with_a_warning():
    data = with_features(made_data("regression"))
    data.graph_features[:, 1] = -data.y[:, 0] / 3
    with pytest.warns(DataWarning, match="equal a target on the training graphs: b$"):
        predictor = fit(data, "legs-deep", made_split(), QUICK, model_options=SMALL).predictor
    classes = with_features(made_data())
    classes.graph_features[:, 2] = classes.y
    with pytest.warns(DataWarning, match="training graphs: c$"):
        fit(classes, "legs-deep", made_split(), QUICK, model_options=SMALL)
    changed = replace(data, graph_features=data.graph_features.clone())
    changed.graph_features[:, 1] = 0
    assert torch.equal(predictor.predict(data), predictor.predict(changed))


def test_stacked_is_sequential(data):
    jobs = [Job(k, made_split(), dict(SMALL)) for k in range(2)]
    order = np.roll(np.arange(60), 7)  # other training graphs have another scale
    split = made_split()
    other = type(split)(*(np.sort(order[part]) for part in split))
    jobs[1] = jobs[1]._replace(split=other)
    shared = Shared(data, replace(QUICK, precision="float64"))
    stacked, alone = (
        train_networks("legs-deep", jobs, shared, strategy)
        for strategy in ("stacked", "sequential")
    )
    for a, b in zip(stacked, alone, strict=True):
        torch.testing.assert_close(a.answers, b.answers, rtol=1e-5, atol=1e-6)
    plain = train_networks("gin", [Job(0, made_split(), {})], shared)  # passes over them
    assert plain[0].answers.isfinite().all()


def test_molecules_from_file_to_prediction(tmp_path, monkeypatch):
    pytest.importorskip("rdkit")
    pytest.importorskip("pandas")
    from legs.cli import main
    from legs.data.features import molecule_features as module
    from legs.explain.runs import drawn_graphs

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = write(tmp_path / "data.csv", ("name", "smiles", "cost"))
    words = ["train", str(file), "--target", "cost", "--epochs", "2", "--set", "hidden_channels=8"]
    words += ["--descriptors", "rdkit", "--fingerprint", "morgan-count"]
    run, out = tmp_path / "run", tmp_path / "out.csv"
    assert main([*words, "--model", "gin", "-o", str(tmp_path / "gin")]) == 1
    assert main([*words, "--model", "legs-deep", "-o", str(run)]) == 0
    predictor = legs.load(run / "model")
    names = module.feature_names("rdkit", "morgan-count")
    assert predictor.network.graph_dim == len(names)
    new = write(tmp_path / "new.csv", ("smiles",), rows(9))
    assert main(["predict", str(run), str(new), "-o", str(out)]) == 0
    answers = predictor.predict(legs.data.load(new))  # which has no descriptors
    written = [float(row["predicted:cost"]) for row in read(out)]
    np.testing.assert_allclose(written, answers[:, 0], rtol=1e-5)
    whole = legs.data.load(new, descriptors="rdkit", fingerprint="morgan-count")
    assert torch.equal(predictor.predict(whole), answers)
    assert main(["embed", str(run), str(new), "-o", str(tmp_path / "embedded.csv")]) == 0
    graph = drawn_graphs(run / "shown.npz")[0]
    assert graph.graph_features.shape == (1, len(names))
    assert np.isfinite(attribute(predictor, graph, baseline="mean").nodes).all()
    # Another RDKit that lacks a descriptor: it is a missing value.
    lacks = replace(
        whole, graph_features=whole.graph_features[:, 1:], graph_feature_names=names[1:]
    )
    missing = replace(whole, graph_features=whole.graph_features.clone())
    missing.graph_features[:, 0] = torch.nan
    assert torch.equal(predictor.predict(lacks), predictor.predict(missing))


def test_runs_of_other_features_are_not_mixed_up(data, tmp_path):
    pytest.importorskip("pandas")
    folder = tmp_path / "run"
    fit(data, "legs-deep", made_split(), QUICK, model_options=SMALL, directory=folder)
    changed = replace(data, graph_features=data.graph_features + 1)
    with pytest.raises(ModelError, match=r"other settings \(data\)"):
        fit(changed, "legs-deep", made_split(), QUICK, model_options=SMALL, directory=folder)
