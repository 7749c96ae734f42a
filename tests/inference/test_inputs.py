"""New files for a model: read as its training data was, no row lost."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

import legs
from legs.data import DataError, load
from legs.data.errors import DataWarning
from legs.data.features.blocks import align
from legs.data.loading import load_training, reading_options
from legs.inference import inputs
from legs.inference.inputs import Reading, iter_batches, read_batch
from legs.training import TrainingOptions, fit, load_predictor
from tests.training.made import made_data

ONE_EPOCH = TrainingOptions(max_epochs=1, validate_every=1)
RINGS = ("smiles,kind,size\n" + "".join(
    f"{'C' * n}{'C1CC1' if ring else ''},{'ring' if ring else 'chain'},{n + 3 * ring}\n"
    for n in range(1, 16) for ring in (0, 1)
))  # fmt: skip


@pytest.fixture
def rdkit():
    return pytest.importorskip("rdkit", reason="the tables hold SMILES")


def predictor_for(folder, **options):
    file = folder / "rings.csv"
    file.write_text(RINGS)
    return fit(load_training(file, **options), "baseline", options=ONE_EPOCH).predictor


def iter_input(reading, path, chunk=None, **options):
    batches = iter_batches(reading, path, chunk=chunk, **options)
    return map(partial(read_batch, reading), batches)


def read_input(predictor, path, **options):
    (part,) = iter_input(Reading.of(predictor), path, **options)
    return part


def test_what_training_notes(tmp_path, rdkit):
    predictor = predictor_for(tmp_path, target="kind", hydrogens=True, features="atoms", limit=20)
    assert predictor.input == {
        "hydrogens": True,
        "bond_weights": False,
        "keep_salts": False,
        "smiles_column": "smiles",
        "targets": ["kind"],
    }
    predictor.save(tmp_path / "model")
    assert load_predictor(tmp_path / "model").input == predictor.input
    assert legs.load(tmp_path / "model").input == predictor.input
    assert Reading.of(predictor).targets == ("kind",)
    assert Reading.of(predictor, id_column="size").asked == ("id_column",)


def test_input_like_the_training_data(tmp_path, rdkit):
    predictor = predictor_for(tmp_path, target="kind", hydrogens=True, features="atoms")
    new = tmp_path / "new.csv"
    new.write_text("id,smiles\na,CO\nb,CCO\na,C\n")
    data = read_input(predictor, new).data
    assert data.ids == ("a", "b", "a")  # places tell rows apart, not ids
    assert data.smiles == ("CO", "CCO", "C")
    assert data.sizes.tolist() == [6, 9, 5]
    assert data.feature_names == predictor.feature_names
    assert data.y is None
    assert predictor.predict(data).shape == (3, 2)


def test_bad_rows_are_counted_and_listed(tmp_path, rdkit):
    predictor = predictor_for(tmp_path, target="kind")
    new = tmp_path / "new.smi"
    new.write_text("CO methanol\nC1CC nothing\nC methane\n")
    with pytest.raises(DataError, match=r"new\.smi line 2"):
        read_input(predictor, new)
    part = read_input(predictor, new, on_error="skip")
    assert part.data.ids == ("methanol", "methane")
    assert [where for where, _ in part.bad()] == ["new.smi line 2"]
    new.write_text("C1CC nothing\n")
    assert read_input(predictor, new, on_error="skip").data is None


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_parts_make_up_the_whole(ending, chunk, tmp_path, rdkit):
    import pandas as pd

    file = tmp_path / f"new.{ending}"
    frame = pd.DataFrame(
        {"smiles": ["CO", "C1CC", "CC", None, "CCC"], "kind": ["a", "b", None, "a", "b"]}
    )
    if ending == "csv":
        # Broken lines at the end come after the last good one.
        file.write_text(frame.to_csv(index=False) + "CO,a,too,many\nCO\n")
    else:
        frame.to_parquet(file, row_group_size=2)
    reading = Reading(("atoms",), targets=("kind",))
    (whole,) = iter_input(reading, file, on_error="skip")
    parts = list(iter_input(reading, file, chunk=chunk, on_error="skip"))
    assert len(parts) >= 5 // chunk
    for name in ("ids", "smiles", "errors", "where"):
        assert [v for part in parts for v in getattr(part, name)] == getattr(whole, name)
    graphs = [part.data for part in parts if part.data is not None]
    assert torch.equal(torch.cat([g.x for g in graphs]), whole.data.x)
    assert [v for g in graphs for v in g.smiles] == ["CO", "CC", "CCC"]
    starts = [sum(len(p.ids) for p in parts[:i]) for i in range(len(parts))]
    rows = [s + r for s, part in zip(starts, parts, strict=True) for r in part.index]
    assert rows == whole.index == [0, 2, 4]
    assert [bool(e) for e in whole.errors] == [i not in rows for i in range(len(whole.ids))]
    truth = pd.concat([part.targets for part in parts if part.targets is not None])
    assert [v if isinstance(v, str) else None for v in truth["kind"]] == ["a", None, "b"]


def test_columns_may_be_called_otherwise(tmp_path, rdkit):
    predictor = predictor_for(tmp_path, target="kind", smiles_column="smiles")
    new = tmp_path / "new.csv"
    new.write_text("structure,smiles2\nCO,C\n")
    assert read_input(predictor, new).smiles == ["C"]  # its name says so
    (part,) = iter_input(Reading.of(predictor, smiles_column="structure"), new)
    assert part.smiles == ["CO"]
    with pytest.raises(DataError, match="no SMILES column 'mol'"):
        list(iter_input(Reading.of(predictor, smiles_column="mol"), new))


def test_an_sdf(tmp_path, rdkit):
    from rdkit import Chem

    predictor = predictor_for(tmp_path, target="kind")
    file = tmp_path / "new.sdf"
    with Chem.SDWriter(str(file)) as writer:
        for text in ("CO", "CC"):
            mol = Chem.MolFromSmiles(text)
            mol.SetProp("kind", "ring")
            writer.write(mol)
    (part,) = iter_input(Reading.of(predictor), file)
    assert part.smiles == ["CO", "CC"]
    assert part.targets["kind"].tolist() == ["ring", "ring"]


def test_a_named_set_read_in_another_way(rdkit, monkeypatch):
    monkeypatch.setattr(inputs, "load", partial(load, limit=10))
    reading = Reading(("atoms",), options={"hydrogens": True})
    with pytest.raises(DataError, match="trained with hydrogens"):
        list(iter_input(reading, "nci-5k"))
    with pytest.raises(DataError, match="hydrogens= does not apply"):
        list(iter_input(replace(reading, asked=("hydrogens",)), "nci-5k"))


def folder_of_graphs(place, sizes, labels=None):
    place.mkdir()
    for name, size in sizes.items():
        nodes = [{"id": i, "label": "AB"[i % 2] if size < 9 else "C"} for i in range(size)]
        links = [{"source": i, "target": i + 1} for i in range(size - 1)]
        graph = {"directed": False, "multigraph": False, "nodes": nodes, "links": links}
        (place / f"{name}.json").write_text(json.dumps(graph))
    if labels is not None:
        (place / "labels.csv").write_text(labels)
    return place


def test_folders_of_files(tmp_path):
    sizes = {f"g{i}": 3 + i % 5 for i in range(20)}
    labels = "file,size\n" + "".join(f"{name},{size}.5\n" for name, size in sizes.items())
    train = folder_of_graphs(tmp_path / "train", sizes, labels)
    data = load_training(train, features="labels+degree", directed="symmetrize")
    predictor = fit(data, "baseline", options=ONE_EPOCH).predictor
    assert predictor.input == {"directed": "symmetrize", "targets": ["size"]}

    new = folder_of_graphs(tmp_path / "new", {"b": 1, "a": 3, "c": 4})
    (new / "ab.json").write_text("{")
    with pytest.raises(DataError, match=r"ab\.json"):
        list(iter_input(Reading.of(predictor), new))
    (part,) = iter_input(Reading.of(predictor), new, on_error="skip")
    assert part.where == ["a.json", "ab.json", "b.json", "c.json"]
    assert part.ids == ["a", "ab.json", "b", "c"]
    assert [bool(e) for e in part.errors] == [False, True, False, False]
    assert part.index == [0, 2, 3]
    assert part.data.sizes.tolist() == [3, 1, 4]
    assert part.data.feature_names == predictor.feature_names
    assert part.smiles == []
    assert part.targets is None

    # With a table beside them, some of whose values are missing.
    (new / "ab.json").unlink()
    (new / "labels.csv").write_text("file,size,note\nc,4.5,x\na,,y\nb,1.5,z\n")
    (part,) = iter_input(Reading.of(predictor), new)
    assert part.ids == ["a", "b", "c"]
    assert [None if v != v else v for v in part.targets["size"]] == [None, "1.5", "4.5"]

    other = folder_of_graphs(tmp_path / "other", {"a": 9})
    with pytest.warns(DataWarning, match=r"other: label=C \(9 nodes\)") as warned:
        data = read_input(predictor, other).data
    assert len(warned) == 1
    assert data.feature_names == predictor.feature_names
    labels = [k for k, name in enumerate(data.feature_names) if name.startswith("label=")]
    assert not data.x[:, labels].any()
    assert predictor.predict(data).isfinite().all()


def test_truth_of_a_named_set(mutag):
    (part,) = iter_input(Reading(("structure",)), "MUTAG")
    assert len(part.ids) == len(mutag)
    assert part.targets.iloc[:, 0].tolist() == [mutag.class_names[k] for k in mutag.y.tolist()]
    assert part.data.y is None


def test_align_reorders_and_fills_one_hot_columns():
    data = replace(made_data(graphs=2), feature_names=("label=B", "mass"))
    same = align(data, ("mass", "label=A", "label=B"))
    assert same.feature_names == ("mass", "label=A", "label=B")
    assert torch.equal(same.x[:, [2, 0]], data.x)
    assert not same.x[:, 1].any()
    with pytest.warns(DataWarning, match=r"label=B \(\d+ nodes\)"):
        unseen = align(data, ("mass", "label=A"))
    assert torch.equal(unseen.x[:, 0], data.x[:, 1])
    assert not unseen.x[:, 1].any()
    for other in (("mass",), ("label=B",), ("mass", "label=B", "charge"), ()):
        assert align(data, other) is data


def test_a_model_of_graphs_made_in_python():
    data = made_data()
    made = replace(data, info={})
    predictor = fit(made, "baseline", options=ONE_EPOCH).predictor
    assert reading_options(made) == {"targets": []}
    with pytest.raises(DataError, match="made in Python"):
        Reading.of(predictor)


def test_no_targets_to_train_on(tmp_path, rdkit):
    file = tmp_path / "a.smi"
    file.write_text("CO\nCC\n")
    assert len(load(file)) == 2
    with pytest.raises(DataError, match="target="):
        load_training(file)
