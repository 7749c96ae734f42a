"""One file format for checkpoints and results: a digest, then safetensors with what is known."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import save

from legs.models import ModelError
from legs.training.checkpoint import (
    State,
    load_state,
    read_checksummed,
    save_state,
    write_checksummed,
)
from legs.training.cv.store import Store, Trained


def by_hand(path, key, known, tensors):
    """The format, written without the program."""
    content = save(tensors, metadata={key: json.dumps(known)})
    path.write_bytes(hashlib.sha256(content).digest() + content)


def test_the_format(tmp_path):
    known, tensors = {"a": [1, None, "ü"]}, {"w/x": torch.arange(3), "y": torch.rand(2, 2)}
    by_hand(tmp_path / "hand", "key", known, tensors)
    write_checksummed(tmp_path / "ours", "key", known, tensors)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "hand").read_bytes()
    found, again = read_checksummed(tmp_path / "hand", "key")
    assert found == known
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)


def test_checkpoints_are_in_it(tmp_path):
    known = {"epoch": 7, "best_epoch": 5, "best_loss": 0.5, "history": [], "settings": {"a": 1}}
    path, tensor = tmp_path / "checkpoint.bin", torch.rand(2)
    by_hand(path, "state", known, {"network/w": tensor})
    old = path.read_bytes()
    state = load_state(path, {"a": 1})
    assert (state.epoch, state.best_epoch, state.best_loss) == (7, 5, 0.5)
    assert torch.equal(state.tensors["network"]["w"], tensor)
    save_state(path, State(7, 5, 0.5, [], {"network": {"w": tensor}}), {"a": 1})
    assert path.read_bytes() == old


def test_results_are_in_it(tmp_path):
    store = Store(tmp_path, {})
    row = {"validation_loss": 0.5, "best_epoch": 3, "epochs": 5, "parameters": 7, "seconds": 1.5}
    row["strategy"] = "stacked"
    (tmp_path / "models").mkdir()
    file = tmp_path / "models" / "gcn-0-0.bin"
    by_hand(file, "models", [row], {"0": torch.ones(2, 3)})
    (model,) = store.load("gcn-0-0")
    assert torch.equal(model.answers, torch.ones(2, 3))
    assert {name: getattr(model, name) for name in row} == row
    old = file.read_bytes()
    store.save("gcn-0-0", Trained(torch.ones(2, 3), **row))
    assert file.read_bytes() == old


def test_damage_is_told_with_advice(tmp_path):
    path = tmp_path / "some.bin"
    write_checksummed(path, "key", 1, {"w": torch.zeros(2)})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"some\.bin is damaged: .*; delete it to start again$"):
        read_checksummed(path, "key")
    with pytest.raises(ModelError, match=r"checksum is wrong; ask again$"):
        read_checksummed(path, "key", "ask again")
    write_checksummed(path, "key", 1, {})
    with pytest.raises(ModelError, match=r"damaged: 'other'; ask again$"):
        read_checksummed(path, "other", "ask again")
