"""Models on disk: saved over an older one, at whatever moment the process is killed."""

from __future__ import annotations

import os

import pytest
import torch

from legs.models import create, load_network
from legs.models.saving import ModelError


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours catches it."""


def network(seed):
    torch.manual_seed(seed)
    return create("legs-fcn", 2, 3).eval()


def is_same(a, b):
    return all(torch.equal(v, b.state_dict()[k]) for k, v in a.state_dict().items())


@pytest.mark.parametrize("renames", range(4))
def test_a_kill_between_renames_leaves_a_model(renames, tmp_path, monkeypatch):
    old, new, third = (network(seed) for seed in range(3))
    old.save(tmp_path)
    done = 0
    replace = os.replace

    def dies(*args):
        nonlocal done
        if done == renames:
            raise Killed
        done += 1
        replace(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dies)
        if renames < 3:
            with pytest.raises(Killed):
                new.save(tmp_path)
        else:
            new.save(tmp_path)
    assert done == renames
    assert is_same(load_network(tmp_path), old if renames < 2 else new)
    third.save(tmp_path)
    assert is_same(load_network(tmp_path), third)
    assert sorted(os.listdir(tmp_path)) == ["model.json", "weights.safetensors"]


def test_files_of_others_beside_a_model_stay(tmp_path):
    (tmp_path / "weights.mine.safetensors").write_text("mine")
    network(0).save(tmp_path)
    network(1).save(tmp_path)
    assert (tmp_path / "weights.mine.safetensors").read_text() == "mine"


def test_weights_of_another_model_are_refused(tmp_path):
    for seed in range(2):
        network(seed).save(tmp_path / str(seed))
    os.replace(tmp_path / "0" / "weights.safetensors", tmp_path / "1" / "weights.safetensors")
    with pytest.raises(ModelError, match=r"weights\.safetensors is damaged: its checksum is wrong"):
        load_network(tmp_path / "1")
