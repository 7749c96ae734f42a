"""Settings of a grid: trained as one where they can be, the same as apart, and told in words."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from legs.training.cv.cross_validation import cross_validate
from legs.training.cv.results import choices, write_results
from legs.training.cv.store import Store
from legs.training.stacked import trainer as stack
from tests.training.cv.test_cross_validation import OPTIONS, TRAINING, data


def kept(folder, *groups):
    """The models of some groups, as a cross-validation has kept them."""
    store = Store(None, {})
    store.directory = folder
    return [model for group in groups for model in store.load(group)]


@pytest.mark.parametrize("method", ["legs-fcn", "legs-fixed"])
def test_learning_rates_share_a_stack_and_change_nothing(method, tmp_path):
    """Two rates and a width at once end as each by itself, in float64."""
    grid = ({"lr": 1e-3}, {"lr": 1e-3, "hidden_channels": 8}, {"lr": 3e-2})
    training = replace(TRAINING, max_epochs=12, precision="float64")
    options = replace(OPTIONS, grid=grid, training=training)
    given = {"strategy": "stacked", "workers": 1}
    together = cross_validate(data(), [method], options, directory=tmp_path / "all", **given)
    apart = []
    for number, setting in enumerate(grid):
        folder, one = tmp_path / str(number), replace(options, grid=(setting,))
        result = cross_validate(data(), [method], one, directory=folder, **given)
        apart.append((result.methods[0], kept(folder, *(f"{method}-0-{k}" for k in range(12)))))
    names = [f"{method}-{setting}-{k}" for setting in (0, 2, 1) for k in range(12)]
    stacked = kept(tmp_path / "all", *names)
    alone = [model for number in (0, 2, 1) for model in apart[number][1]]
    for a, b in zip(stacked, alone, strict=True):
        assert (a.best_epoch, a.epochs, a.parameters) == (b.best_epoch, b.epochs, b.parameters)
        assert a.validation_loss == pytest.approx(b.validation_loss, abs=1e-8)
        torch.testing.assert_close(a.answers, b.answers, rtol=0, atol=1e-6)
    losses = [[np.mean([m.validation_loss for m in found[k : k + 3]]) for k in (0, 3, 6, 9)]
              for _, found in apart]  # fmt: skip
    chosen = np.argmin(losses, axis=0).tolist()
    assert together.methods[0].chosen == chosen
    assert together.methods[0].scores == [apart[s][0].scores[k] for k, s in enumerate(chosen)]
    assert together.methods[0].models == 36


def test_stacks_larger_than_a_chunk_are_cut(tmp_path):
    """Also by a run that goes on with other chunks: what is kept is taken as it is."""
    options = replace(OPTIONS, rotations=1, grid=({"lr": 1e-3}, {"lr": 1e-2}))
    whole = cross_validate(data(), ["baseline"], options, strategy="stacked")
    cut = cross_validate(
        data(), ["baseline"], options, strategy="stacked", chunk=3, directory=tmp_path
    )
    names = [f"baseline-{setting}-{k}" for setting in (0, 1) for k in range(4)]
    assert sorted(path.stem for path in tmp_path.glob("models/*.bin")) == names
    for number in (1, 3, 6, 7):
        (tmp_path / "models" / f"{names[number]}.bin").unlink()
    again = cross_validate(
        data(), ["baseline"], options, strategy="stacked", chunk=4, directory=tmp_path
    )
    for found in (cut, again):
        assert found.methods[0].scores == whole.methods[0].scores
        assert found.methods[0].chosen == whole.methods[0].chosen


def test_a_state_of_another_stack_is_dropped(tmp_path, monkeypatch):
    """Interrupted with one size of chunk, gone on with another."""
    monkeypatch.setattr(stack, "CHECKPOINT_SECONDS", -1.0)

    def stop(facts):
        if facts.standing.epoch == 4:
            raise KeyboardInterrupt

    given = {"strategy": "stacked", "directory": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        cross_validate(data(), ["gcn"], OPTIONS, chunk=5, progress=stop, **given)
    assert (tmp_path / "models" / "gcn-0-0.partial").exists()
    found = cross_validate(data(), ["gcn"], OPTIONS, **given)
    calm = cross_validate(data(), ["gcn"], OPTIONS, strategy="stacked")
    assert found.methods[0].scores == calm.methods[0].scores


def test_every_kind_of_method_with_a_grid(tmp_path):
    """Ensembles follow it, GS-SVM has its own; tables say what each test set chose, in words."""
    grid = ({"lr": 1e-9}, {"lr": 1e-2, "dropout": 0.25})
    training = replace(TRAINING, max_epochs=30, patience=30)
    options = replace(OPTIONS, rotations=1, grid=grid, training=training)
    names = ["legs-fixed", "gcn-legs-fixed", "gs-svm"]
    result = cross_validate(data(), names, options, directory=tmp_path, workers=1)
    assert [method.models for method in result.methods] == [8, 8, 4]
    assert [method.chosen for method in result.methods] == [[1] * 4, [1] * 4, [0] * 4]
    assert choices(result).to_numpy().tolist() == [
        ["legs-fixed", "lr=0.01, dropout=0.25", "0, 1, 2, 3"],
        ["gcn-legs-fixed", "lr=0.01, dropout=0.25", "0, 1, 2, 3"],
        ["gs-svm", "its own C and gamma", "0, 1, 2, 3"],
    ]
    write_results(result, tmp_path)
    folds = pd.read_csv(tmp_path / "folds.csv")
    assert folds["chosen"].tolist() == [
        *["lr=0.01, dropout=0.25"] * 8,
        *["its own C and gamma"] * 4,
    ]
    known = json.loads((tmp_path / "results.json").read_text())
    assert known["methods"][0]["settings"] == ["lr=0.01, dropout=0.25"] * 4
    assert (
        "| legs-fixed | lr=0.01, dropout=0.25 | 0, 1, 2, 3 |"
        in (tmp_path / "results.md").read_text()
    )


def test_no_grid_no_choices():
    result = cross_validate(data(), ["baseline"], replace(OPTIONS, rotations=1), strategy="stacked")
    assert choices(result).empty


def test_wrong_options_are_told_before_anything_is_made(tmp_path):
    options = replace(OPTIONS, grid=({"num_scales": 3},))
    with pytest.raises(ValueError, match=r"^gcn has no option 'num_scales'; it takes lr, "):
        cross_validate(data(), ["legs-fcn", "gcn"], options, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()
