"""Damage to what ``legs report`` reads: refused, or made again."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest

from legs.cli import main
from legs.explain import explain_folder, explain_run
from legs.io import FileError, FileWarning, file_digests, with_digest
from legs.report.folders import ReportError, read_train
from legs.training import TrainingOptions, fit
from legs.training.runs import find_model
from tests.training.made import made_data, made_split

OPTIONS = {"hidden_channels": 4, "num_scales": 2, "steps": 4}


def trained(folder, seed):
    how = TrainingOptions(max_epochs=2, validate_every=1, batch_size=16, lr=1e-2, seed=seed)
    fit(made_data(), "legs-fcn", made_split(), how, model_options=OPTIONS, directory=folder)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs that differ in their seeds; the first has been explained."""
    folder = tmp_path_factory.mktemp("runs")
    one, other = (trained(folder / str(seed), seed) for seed in (0, 1))
    explain_run(one)
    return one, other


@pytest.fixture
def run(runs, tmp_path):
    shutil.copytree(runs[0], tmp_path / "run")
    return tmp_path / "run"


def flip(file, share=0.5):
    content = bytearray(file.read_bytes())
    content[int(len(content) * share)] ^= 1
    file.write_bytes(content)


def rewrite(file, change):
    """Changes a JSON file, under a right checksum."""
    known = json.loads(file.read_text())
    known.pop("sha256", None)
    change(known)
    file.write_text(json.dumps(with_digest(known)))


@pytest.mark.parametrize("explained", [True, False])
@pytest.mark.parametrize("name", ["weights.safetensors", "model.json"])
def test_a_page_of_a_damaged_model_is_refused(run, name, explained, capsys):
    if not explained:
        (run / "explained.json").unlink()
    flip(run / "model" / name, 0.3)
    assert main(["report", str(run)]) == 1
    assert f"{name} is damaged" in capsys.readouterr().err
    assert not (run / "report.html").exists()
    with pytest.raises(ReportError, match=f"{name} is damaged"):
        read_train(run)


def test_the_model_of_another_run_is_refused(run, runs, capsys):
    shutil.rmtree(run / "model")
    shutil.copytree(runs[1] / "model", run / "model")
    assert main(["report", str(run)]) == 1
    assert "is not the model of this run" in capsys.readouterr().err
    for read in (find_model, explain_run, read_train):
        with pytest.raises((FileError, ReportError), match="is not the model of this run"):
            read(run)
    assert find_model(run / "model") == run / "model"  # by itself it is whole


@pytest.mark.parametrize("text", ["{", "[]", '{"sha256": "0"}'])
def test_damaged_results_are_refused(run, text):
    (run / "results.json").write_text(text)
    with pytest.raises(FileError, match=r"results\.json is damaged.*model for the model alone"):
        find_model(run)


def test_damaged_explanations_are_made_again(run):
    file = run / "explained.json"
    before = file.read_bytes()
    flip(file)
    with pytest.raises(ReportError, match=r"explained\.json is damaged"):
        read_train(run)
    with pytest.warns(FileWarning, match=r"explained\.json is damaged.*made again"):
        explain_folder(run)
    assert file.read_bytes() == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_train(run).explained["kind"] == "classification"


def test_explanations_of_another_run_are_made_again(run, runs):
    before = (run / "explained.json").read_bytes()
    shutil.copy(explain_run(runs[1]), run / "explained.json")
    with pytest.raises(ReportError, match=r"explained\.json explains another model"):
        read_train(run)
    explain_folder(run)
    assert (run / "explained.json").read_bytes() == before


def test_a_run_of_0_1_0_loads_with_warnings(run, capsys):
    rewrite(run / "results.json", lambda known: known.pop("weights"))
    known = json.loads((run / "explained.json").read_text())
    for name in ("sha256", "weights", "files"):
        del known[name]
    (run / "explained.json").write_text(json.dumps(known))
    with pytest.warns(FileWarning, match="does not say which model"):
        find_model(run)
    assert main(["report", str(run)]) == 0
    told = capsys.readouterr().err.splitlines()
    assert all(line.startswith("legs: warning: ") for line in told)
    assert sum("does not say which model" in line for line in told) == 1
    assert sum("explained.json has no checksum" in line for line in told) == 1
    flip(run / "model" / "weights.safetensors")
    assert main(["report", str(run)]) == 1
    assert "weights.safetensors is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["empty", "cut", "without best", "other shapes"])
@pytest.mark.parametrize("known", [True, False])
def test_graphs_that_cannot_be_read(run, damage, known, capsys):
    """Also where the digest in ``results.json`` is that of the damaged file."""
    (run / "explained.json").unlink()
    file = run / "shown.npz"
    content = file.read_bytes()
    with np.load(file) as kept:
        arrays = dict(kept)
    if damage == "without best":
        del arrays["best"]
    arrays["ptr"] = np.array([0, 9]) if damage == "other shapes" else arrays["ptr"]
    if damage in ("empty", "cut"):
        file.write_bytes(content[: 0 if damage == "empty" else len(content) // 2])
    else:
        np.savez_compressed(file, **arrays)
    if known:
        digests = file_digests(run, ["shown.npz"])
        rewrite(run / "results.json", lambda results: results["files"].update(digests))
    assert main(["report", str(run)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("legs: ")
    assert "shown.npz is damaged" in error
    assert "interrupted" not in error


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scores", {"test": 0.5}),
        ("settings", [1]),
        ("data", None),
        ("scores", {"test": {"r2": "é"}}),
        ("command", "\ud800"),
    ],
)
def test_results_of_another_kind_are_refused(run, name, value, capsys):
    """Under a right checksum, as another program may write them."""
    rewrite(run / "results.json", lambda results: results.update({name: value}))
    assert main(["report", str(run)]) == 1
    assert f"{run} is damaged: " in capsys.readouterr().err
    assert not (run / "report.html").exists()


def test_a_method_that_was_not_tried(tmp_path, capsys):
    """A cross-validation whose best method is none of its methods."""
    from legs.training import CVOptions, cross_validate
    from legs.training.cv.results import write_results
    from legs.training.shown import write_cv_shown

    how = TrainingOptions(max_epochs=2, validate_every=1, batch_size=16)
    options = CVOptions(folds=3, rotations=1, training=how)
    result = cross_validate(
        made_data(), ["baseline"], options, directory=tmp_path, strategy="stacked"
    )
    write_results(result, tmp_path)
    write_cv_shown(tmp_path, result)
    rewrite(tmp_path / "scales.json", lambda known: known.update(lead="gcn"))
    assert main(["report", str(tmp_path)]) == 1
    assert f"{tmp_path} is damaged: " in capsys.readouterr().err
