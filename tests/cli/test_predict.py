"""``legs predict``: a row out for each row in, and models that cannot be used."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from legs.cli import main
from legs.io import digest_of
from tests.cli.molecules import QUICK, read, rows, told, train_classes, train_numbers, write
from tests.data.tu_sets import write_folder

pytest.importorskip("rdkit", reason="the tables hold SMILES")


def test_classes_of_new_rows(tmp_path, capsys):
    run = train_classes(tmp_path)
    capsys.readouterr()
    new = write(tmp_path / "new.csv", ("name", "smiles"), rows(6))
    out = tmp_path / "out.csv"
    assert main(["predict", str(run), str(new), "--id-column", "name", "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"6 rows in {out}" in printed
    assert "accuracy" not in printed
    found = read(out)
    assert [row["id"] for row in found] == [f"m{i}" for i in range(6)]
    assert [row["smiles"] for row in found] == [row["smiles"] for row in rows(6)]
    for row in found:
        chances = {name: float(row[f"probability:kind={name}"]) for name in ("alcohol", "alkane")}
        assert sum(chances.values()) == pytest.approx(1)
        assert row["predicted:kind"] == max(chances, key=chances.__getitem__)
    assert "error" not in found[0]
    assert "measured:kind" not in found[0]
    # A model by itself, without the run around it.
    assert main(["predict", str(run / "model"), str(new), "-o", str(tmp_path / "same.csv")]) == 0
    same = read(tmp_path / "same.csv")
    name = "probability:kind=alkane"
    assert [row[name] for row in same] == [row[name] for row in found]


def test_numbers_in_their_own_units_and_scores(tmp_path, capsys):
    run = train_numbers(tmp_path, "--epochs", "200", "--lr", "0.01")
    capsys.readouterr()
    found = rows(8)
    found[2]["weight"] = ""
    columns = ("smiles", "maker", "atoms", "weight", "cost")
    new = write(tmp_path / "new.csv", columns, [row | {"maker": "Ü&Co"} for row in found])
    assert main(["predict", str(run), str(new), "-o", str(tmp_path / "out.parquet")]) == 0
    printed = capsys.readouterr().out
    assert "8 rows with targets" in printed
    assert "RMSE of weight" in printed
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert list(table.columns) == [
        *("id", "measured:atoms", "measured:weight", "measured:cost"),
        *("predicted:atoms", "predicted:weight", "predicted:cost"),
        *("nearest", "similarity", "unlike_training", "smiles", "maker"),
    ]
    assert table["maker"].tolist() == ["Ü&Co"] * 8
    assert table["predicted:weight"].notna().all()
    assert table["measured:weight"].isna().tolist() == [i == 2 for i in range(8)]
    error = (table["predicted:weight"] - table["measured:weight"]).pow(2).mean() ** 0.5
    spread = table["measured:weight"].std()
    assert error < spread  # grams a mole, not numbers around zero


def test_rows_of_the_training_data_are_counted_apart(tmp_path, capsys):
    run = train_classes(tmp_path)
    used = json.loads((run / "split.json").read_text())[0]
    known = len({*used["train"], *used["validation"]})
    data, out = str(tmp_path / "classes.csv"), str(tmp_path / "out.csv")
    capsys.readouterr()
    assert main(["predict", str(run), data, "-o", out]) == 0
    printed = capsys.readouterr().out
    assert f"{known} of 40 rows were in the training data" in printed
    assert f"scores on the other {40 - known}" in printed
    assert printed.index("were in the training data") < printed.index("accuracy")
    # The same molecules, written otherwise.
    other = [{"smiles": "OCC", "kind": "alcohol"}, {"smiles": "BrBr", "kind": "alkane"}]
    assert any(rows()[i]["smiles"] == "CCO" for i in used["train"])
    new = write(tmp_path / "new.csv", ("smiles", "kind"), other)
    assert main(["predict", str(run), str(new), "-o", out]) == 0
    assert "1 of 2 rows were in the training data" in capsys.readouterr().out
    seen = write(tmp_path / "seen.csv", ("smiles", "kind"), other[:1])
    assert main(["predict", str(run), str(seen), "-o", out]) == 0
    printed = capsys.readouterr().out
    assert "all 1 rows were in the training data" in printed
    # Models saved before this was noted: no claim.
    path = run / "model" / "model.json"
    description = json.loads(path.read_text())
    assert description.pop("trained_on")
    digests = description.pop("sha256")
    digests["model.json"] = digest_of(description)
    path.write_text(json.dumps({**description, "sha256": digests}))
    assert main(["predict", str(run), data, "-o", out]) == 0
    assert "training data" not in capsys.readouterr().out


def test_salts_are_read_as_in_training(tmp_path, capsys):
    run = train_classes(tmp_path)
    new = tmp_path / "new.csv"
    new.write_text("smiles\nCCO\nCCO.Cl\n")
    capsys.readouterr()
    words = ["predict", str(run), str(new), "-o", str(tmp_path / "out.csv"), "--batch-size", "1"]
    assert main(words) == 0
    assert "1 row of several fragments" in capsys.readouterr().out
    one, other = read(tmp_path / "out.csv")
    assert (one["smiles"], other["smiles"]) == ("CCO", "CCO.Cl")
    assert one["probability:kind=alkane"] == other["probability:kind=alkane"]


def test_the_nearest_training_molecule(tmp_path):
    run = train_classes(tmp_path)
    train = json.loads((run / "split.json").read_text())[0]["train"]
    new = tmp_path / "new.csv"
    new.write_text(f"smiles\n{rows()[train[0]]['smiles']}\nC1\nCCCCCCO\nClC(F)=S(=O)=O\n")
    words = ["predict", str(run), str(new), "-o", str(tmp_path / "out.csv")]
    assert main([*words, "--on-error", "skip"]) == 0
    same, bad, other, unlike = read(tmp_path / "out.csv")
    assert (float(same["similarity"]), same["unlike_training"]) == (1.0, "False")
    assert bad["nearest"] == bad["similarity"] == bad["unlike_training"] == ""
    assert unlike["unlike_training"] == "True"
    from rdkit import Chem, DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    names = [rows()[k]["smiles"] for k in train]
    first, *known = [generator.GetFingerprint(Chem.MolFromSmiles(s)) for s in ("CCCCCCO", *names)]
    similar = DataStructs.BulkTanimotoSimilarity(first, known)
    assert float(other["similarity"]) == pytest.approx(max(similar), abs=1e-3)
    assert other["nearest"] in [n for n, s in zip(names, similar, strict=True) if s == max(similar)]


def test_truths_that_are_no_class_of_the_model(tmp_path, capsys):
    run = train_classes(tmp_path)
    found = rows(5)
    found[0]["kind"], found[1]["kind"] = "ether", ""
    new = write(tmp_path / "new.csv", ("smiles", "kind"), found)
    capsys.readouterr()
    assert main(["predict", str(run), str(new), "-o", str(tmp_path / "out.csv")]) == 0
    printed = capsys.readouterr().out
    assert "3 rows with targets" in printed
    assert "ether" in printed
    truths = [row["measured:kind"] for row in read(tmp_path / "out.csv")]
    assert truths == ["ether", "", "alkane", "alcohol", "alkane"]


def test_bad_rows_keep_their_place(tmp_path, capsys):
    run = train_classes(tmp_path)
    new = tmp_path / "new.csv"
    new.write_text("name,smiles\na,CO\nb,C1CC\nc\nd,CC\n\ne,\nf,C,x\n")
    out = tmp_path / "out.csv"
    out.write_text("mine")
    args = ["predict", str(run), str(new), "--id-column", "name", "-o", str(out)]
    assert main(args) == 1
    assert "new.csv line" in told(capsys)
    assert out.read_text() == "mine"
    assert sorted(p.name for p in tmp_path.glob(".*")) == []
    assert main([*args, "--on-error", "skip"]) == 0
    assert "6 rows" in (printed := capsys.readouterr().out)
    assert "4 have no prediction" in printed
    found = read(out)
    assert [row["id"] for row in found] == ["a", "b", "", "d", "e", ""]
    answered = [bool(row["predicted:kind"]) for row in found]
    assert answered == [True, False, False, True, False, False]
    assert [not row["error"] for row in found] == answered
    assert "C1CC" in found[1]["error"]
    assert "fields" in found[2]["error"]


def test_new_files_are_read_as_in_training(tmp_path, capsys):
    found = [row | {"mol": row["smiles"], "smiles": "C"} for row in rows()]
    data = write(tmp_path / "data.csv", ("mol", "smiles", "kind"), found)
    run = str(tmp_path / "run")
    more = ("--smiles-column", "mol", "--hydrogens", "--features", "atoms+degree")
    args = ["train", str(data), "--target", "kind", "-o", run, "--model", "gcn", "--epochs", "4"]
    assert main([*args, *more]) == 0
    description = json.loads((tmp_path / "run" / "model" / "model.json").read_text())
    assert description["features"] == ["atoms", "degree"]
    assert description["feature_names"][0] == "H"
    assert description["input"] == {
        **{"hydrogens": True, "bond_weights": False, "keep_salts": False},
        **{"smiles_column": "mol", "targets": ["kind"]},
    }
    assert main(["predict", run, str(data), "-o", str(tmp_path / "both.csv")]) == 0
    only = write(tmp_path / "only.smi", ("mol",), found)
    only.write_text("\n".join(only.read_text().splitlines()[1:]))
    assert main(["predict", run, str(only), "-o", str(tmp_path / "only.csv")]) == 0
    both, alone = (
        [row["probability:kind=alkane"] for row in read(tmp_path / f"{name}.csv")]
        for name in ("both", "only")
    )
    assert both == alone
    assert len(set(both)) > 10  # of "smiles" they would all be methane


def test_features_that_do_not_fit(tmp_path, capsys):
    run = train_classes(tmp_path)
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "a.edges").write_text("1 2\n2 3\n")
    assert main(["predict", str(run), str(folder), "-o", str(tmp_path / "x.csv")]) == 1
    assert "'chem'" in told(capsys)


def test_a_label_that_training_did_not_have(tmp_path, capsys):
    def write_set(folder, labels):
        graphs = range(1, 31)
        nodes = [(g, labels[k % len(labels)]) for g in graphs for k in range(3)]
        edges = [f"{3 * g + a}, {3 * g + b}" for g in range(30) for a, b in ((1, 2), (2, 1))]
        parts = {
            "A": "\n".join(edges),
            "graph_indicator": "\n".join(str(g) for g, _ in nodes),
            "graph_labels": "\n".join(str(g % 2) for g in graphs),
            "node_labels": "\n".join(str(label) for _, label in nodes),
        }
        return str(write_folder(folder, parts))

    run = str(tmp_path / "run")
    assert main(["train", write_set(tmp_path / "old", [1, 2]), "-o", run, *QUICK]) == 0
    new = write_set(tmp_path / "new", [1, 2, 7])
    for command, out in (("predict", "out.csv"), ("embed", "features.csv"), ("embed", "parts")):
        capsys.readouterr()
        assert main([command, run, new, "-o", str(tmp_path / out)]) == 0
        err = capsys.readouterr().err
        assert err.startswith("legs: warning: ")
        assert "label=7 (30 nodes)" in err
        assert err.count("\n") == 1
    assert len(read(tmp_path / "out.csv")) == 30


def test_models_that_cannot_be_used(tmp_path, capsys):
    run = train_classes(tmp_path)
    new = str(write(tmp_path / "new.csv", ("smiles",), rows(3)))
    args = ["-o", str(tmp_path / "out.csv")]
    model = run / "model"
    description = json.loads((model / "model.json").read_text())
    weights = (model / "weights.safetensors").read_bytes()
    capsys.readouterr()

    def refused(place=run):
        assert main(["predict", str(place), new, *args]) == 1
        assert not (tmp_path / "out.csv").exists()
        return told(capsys)

    assert "no such run" in refused(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "holds no model" in refused(tmp_path / "empty")
    (model / "weights.safetensors").write_bytes(weights[:-1] + b"!")
    assert "checksum" in refused()
    (model / "weights.safetensors").write_bytes(weights)
    for change, word in (
        ({"format": 99}, "format 99"),
        ({"input": 3}, "damaged"),
        ({"features": []}, "made in Python"),
    ):
        changed = description | change
        digests = dict(changed.pop("sha256"))
        (model / "model.json").write_text(json.dumps(changed | {"sha256": digests}))
        assert "damaged: its checksum is wrong" in refused() or "format" in change
        digests["model.json"] = digest_of(changed)  # as if it had been saved so
        (model / "model.json").write_text(json.dumps(changed | {"sha256": digests}))
        assert word in refused()
    # Models saved before it was noted how their data was read.
    del description["input"], description["sha256"]["model.json"]
    (model / "model.json").write_text(json.dumps(description))
    assert main(["predict", str(run), new, *args]) == 0


@pytest.mark.parametrize(
    ("out", "word"),
    [("new.csv", "input"), ("none/out.csv", "folder"), ("out.xlsx", ".parquet"), (".", "ends in")],
)
def test_places_for_the_output(out, word, tmp_path, capsys, monkeypatch):
    run = train_classes(tmp_path)
    monkeypatch.chdir(tmp_path)
    new = write(tmp_path / "new.csv", ("smiles",), rows(3))
    before = new.read_bytes()
    assert main(["predict", str(run), "new.csv", "-o", out]) == 1
    assert word in told(capsys)
    assert new.read_bytes() == before


def test_unknown_columns(tmp_path, capsys):
    run = train_classes(tmp_path)
    new = write(tmp_path / "new.csv", ("smiles",), rows(3))
    args = ["predict", str(run), str(new), "-o", str(tmp_path / "out.csv")]
    assert main([*args, "--smiles-column", "smile"]) == 1
    assert "'smiles'" in told(capsys)


def test_decimal_commas_in_training_and_after(tmp_path, capsys):
    found = rows()
    lines = [f"{r['smiles']};{r['weight']:.2f}".replace(".", ",") for r in found]
    data, new = tmp_path / "data.csv", tmp_path / "new.csv"
    data.write_text("\n".join(["smiles;weight", *lines]) + "\n")
    run, out = tmp_path / "run", tmp_path / "out.csv"
    assert main(["train", str(data), "-o", str(run), *QUICK]) == 0
    assert "regression: weight" in capsys.readouterr().out
    new.write_text("\n".join(["smiles;weight", *lines[:6], "CC;>7,5", "CC;1_0", "C;1,234"]) + "\n")
    assert main(["predict", str(run), str(new), "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "7 rows with targets" in printed
    assert "not scored: not numbers (1_0, >7,5)" in printed
    truth = [row["measured:weight"] for row in read(out)]
    assert truth[:2] == ["16.05", "32.05"]
    assert truth[6:] == ["", "", "1.234"]
    # Measured values that cannot be read are not scored, with the reason; predictions need none.
    for last, reason in (
        (["CC;7.5"], "new.csv line 2: the target column 'weight' holds '16,05'"),
        (["CC;1,234", "C;5,678"], "thousands"),
    ):
        measured = lines[:6] if last == ["CC;7.5"] else []
        new.write_text("\n".join(["smiles;weight", *measured, *last]) + "\n")
        assert main(["predict", str(run), str(new), "-o", str(out)]) == 0
        warning = capsys.readouterr().err
        assert reason in warning and "not scored" in warning
        table = read(out)
        assert len(table) == len(measured) + len(last)
        assert all(row["measured:weight"] == "" and float(row["predicted:weight"]) for row in table)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "smi", "sdf"])
def test_one_row_per_row_of_every_kind_of_file(ending, tmp_path, capsys):
    from rdkit import Chem

    run = train_classes(tmp_path)
    smiles = ["CO", "C1CC", "CC", "nonsense", "CCC"]
    new = tmp_path / f"new.{ending}"
    if ending == "sdf":
        blocks = [Chem.MolToMolBlock(Chem.MolFromSmiles(s)) for s in ("CO", "CC", "CCC")]
        good = [
            f"m{i}\n" + block.split("\n", 1)[1] for i, block in zip((0, 2, 4), blocks, strict=True)
        ]
        records = [good[0], "m1\n\n\nbroken\n", good[1], "m3\n\n\nnonsense\n", good[2]]
        new.write_text("".join(f"{record}$$$$\n" for record in records))
    elif ending == "smi":
        new.write_text("".join(f"{s} m{i}\n" for i, s in enumerate(smiles)))
    else:
        table = pd.DataFrame({"id": [f"m{i}" for i in range(5)], "smiles": smiles})
        if ending == "parquet":
            table.to_parquet(new)
        else:
            table.to_csv(new, sep="\t" if ending == "tsv" else ",", index=False)
    out = tmp_path / "out.csv"
    args = ["predict", str(run), str(new), "-o", str(out), "--on-error", "skip"]
    assert main(args) == 0
    found = read(out)
    assert [row["id"] for row in found] in (
        [f"m{i}" for i in range(5)],
        ["m0", "2", "m2", "4", "m4"],
    )
    assert [bool(row["predicted:kind"]) for row in found] == [True, False, True, False, True]
    assert [bool(row["error"]) for row in found] == [False, True, False, True, False]
    listed = read(tmp_path / "out.bad_rows.csv")
    assert [row["reason"] for row in listed] == [found[1]["error"], found[3]["error"]]
    assert all(row["where"].startswith(f"new.{ending} ") for row in listed)
    assert "out.bad_rows.csv" in capsys.readouterr().out
