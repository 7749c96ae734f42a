"""How sure a cross-validation is: answers come from the models that voted, in their order."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from legs.explain import explain_folder, write_certainty
from legs.explain.runs import certainty, kept_answers
from legs.report.folders import read_cv
from legs.training import CVOptions, TrainingOptions, cross_validate
from legs.training.cv.results import vote, write_results
from tests.training.made import made_data

QUICK = TrainingOptions(max_epochs=2, validate_every=2, batch_size=16, lr=3e-3)
GRID = ({"lr": 1e-4}, {"lr": 1e-2, "dropout": 0.5}, {"lr": 3e-2})
METHODS = ["baseline", "gs-svm", "gcn-legs-fixed"]


@pytest.fixture(scope="module", params=[({},), GRID], ids=["plain", "tuned"])
def found(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cv")
    options = CVOptions(folds=3, rotations=2, training=QUICK, grid=request.param)
    result = cross_validate(
        made_data(), METHODS, options, directory=folder, strategy="stacked", chunk=5
    )
    write_results(result, folder)
    return folder, result


def test_answers_are_those_that_were_voted_on(found):
    folder, result = found
    grid = json.loads((folder / "results.json").read_text())["options"]["grid"]
    for method in result.methods:
        answers = kept_answers(folder, method.method, grid, method.chosen)
        assert [len(a) for a in answers] == [1 if method.method == "gs-svm" else 2] * 3
        for kept, voted in zip(answers, method.predictions, strict=True):
            assert torch.equal(vote(kept), voted)


def test_what_is_written_belongs_to_the_rows_of_predictions(found):
    folder, result = found
    assert explain_folder(folder) is None  # no model to explain
    known = read_cv(folder).certainty
    lead = max(result.methods, key=lambda m: m.mean)
    assert known["method"] == lead.method
    grid = json.loads((folder / "results.json").read_text())["options"]["grid"]
    answers = kept_answers(folder, lead.method, grid, lead.chosen)
    for k, (split, kept) in enumerate(zip(result.splits, answers, strict=True)):
        table = read_cv(folder).predictions
        rows = table.index[table["test_set"] == k]
        assert table["graph"][rows].tolist() == split[0].test.tolist()
        expected = [
            max(kept[:, place].mean(0).tolist())
            if len(kept) == 1
            else float(
                kept[:, place, result.data.class_names.index(table[lead.method][row])].mean()
            )
            for place, row in enumerate(rows)
        ]
        sure = [known["sure"][row] for row in rows]
        assert sure == pytest.approx(expected, abs=1e-3)


def test_certainty_is_that_of_the_voted_class():
    answers = torch.tensor([[[0.6, 0.4]], [[0.6, 0.4]], [[0.1, 0.9]]])  # two to one, but unsure
    assert float(certainty(answers)) == pytest.approx(1.3 / 3)


def test_nothing_where_there_is_nothing(found, tmp_path):
    folder = tmp_path / "cv"
    shutil.copytree(found[0], folder)
    shutil.rmtree(folder / "models")
    assert write_certainty(folder) is None
    numbers = tmp_path / "numbers"
    options = CVOptions(seeds=(0,), training=QUICK)
    data = made_data("regression")
    write_results(cross_validate(data, ["baseline"], options, directory=numbers), numbers)
    assert write_certainty(numbers) is None
