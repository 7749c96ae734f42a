"""Whatever a file says of itself, what people are told stays readable."""

from __future__ import annotations

import json

import pytest

from legs.data.errors import DataError
from legs.io import BoundedError, FileError, with_digest
from legs.models import ModelError
from legs.report.folders import ReportError
from reproduction.run import run
from tests.reproduction.made import cells, quick, row


@pytest.mark.parametrize("kind", [DataError, FileError, ModelError, ReportError])
def test_beginning_and_end_of_long_messages(kind):
    assert issubclass(kind, BoundedError)
    assert str(kind("short")) == "short"
    told = str(kind("what " + "x" * 100_000 + " to do"))
    assert told.startswith("what xx")
    assert told.endswith("xx to do")
    assert len(told) < 2_000


def test_results_of_an_experiment_with_a_name_that_does_not_end(tmp_path):
    known = with_digest({**row(cells("classification")[0]), "experiment": "x" * 100_000})
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "a.json").write_text(json.dumps(known))
    with pytest.raises(ModelError, match="choose another folder") as caught:
        run("classification", quick(tmp_path))
    assert len(str(caught.value)) < 2_000
