"""Notes of a run: complete at its end, readable at any moment."""

import json

import pytest

from legs.models import ModelError
from legs.training.checkpoint import State
from legs.training.records import Records

ROWS = [{"epoch": 1, "train_loss": 0.5}, {"epoch": 2, "train_loss": 0.25, "validation_loss": 1.0}]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_appear_at_once_and_are_tidied_at_the_end(tmp_path):
    log = tmp_path / "run" / "metrics.jsonl"
    for _ in range(2):  # the second time after a kill: the same epochs are noted again
        records = Records(tmp_path / "run", {"model": "gcn"})
        for number, row in enumerate(ROWS):
            records.add(row)
            assert read(log)[-1] == ROWS[number]
    records.finish(State(epoch=2, history=ROWS))
    assert read(log) == ROWS
    expected = "epoch,train_loss,validation_loss\n1,0.5,\n2,0.25,1.0\n"
    assert (tmp_path / "run" / "metrics.csv").read_text() == expected


def test_half_a_line_is_removed(tmp_path):
    log = tmp_path / "metrics.jsonl"
    for torn in (b"", b'{"epoch": 1, "tr'):
        log.write_bytes(json.dumps(ROWS[0]).encode() + b"\n" + torn)
        Records(tmp_path, {}).add(ROWS[1])
        assert read(log) == ROWS
    log.write_bytes(b'{"ep')
    Records(tmp_path, {}).add(ROWS[0])
    assert read(log) == ROWS[:1]


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records = Records(None, {})
    records.add(ROWS[0])
    records.finish(State(history=ROWS))
    assert list(tmp_path.iterdir()) == []


def test_damaged_or_other_settings(tmp_path):
    Records(tmp_path, {"a": 1})
    Records(tmp_path, {"a": 1})
    with pytest.raises(ModelError, match=r"other settings \(a\)"):
        Records(tmp_path, {"a": 2})
    for content in ("{", "3", ""):
        (tmp_path / "settings.json").write_text(content)
        with pytest.raises(ModelError, match=r"settings\.json is damaged"):
            Records(tmp_path, {"a": 1})
