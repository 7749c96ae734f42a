"""Prepared sets on disk: as they were, or refused."""

from __future__ import annotations

import importlib.util
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data.catalog import cache
from legs.data.catalog.cache import load_dataset, save_dataset
from legs.data.dataset import GraphDataset
from legs.data.errors import DataError


def make(**known) -> GraphDataset:
    edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    known = {"y": torch.tensor([1, 0]), "task": "classification", **known}
    return GraphDataset.from_edges(
        torch.rand(5, 2),
        torch.tensor([0, 3, 5]),
        edges,
        torch.rand(6),
        name="näme",
        feature_names=("a", "b"),
        class_names=("x", "y"),
        ids=("1", "\udcff odd"),
        smiles=("CC", ""),
        **known,
    )


def equal(a: GraphDataset, b: GraphDataset) -> bool:
    def same(x, y):
        return x.dtype == y.dtype and torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y

    return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))


@pytest.mark.parametrize(
    "known",
    [
        {"info": {"n": 1, "deep": {"list": [1.5, None, True]}}},
        {"y": None, "task": None},
        {"y": torch.tensor([[1.0], [2.5]]), "task": "regression", "target_names": ("t",)},
        {"edge_weight": None},
    ],
)
def test_round_trip(tmp_path, known):
    weight = known.pop("edge_weight", 0)
    data = make(**known) if weight == 0 else replace(make(), edge_weight=None)
    folder = save_dataset(tmp_path / "new" / "set", data)
    assert equal(load_dataset(folder), data)
    assert [p.name for p in folder.parent.iterdir()] == ["set"]


def test_info_becomes_plain(tmp_path):
    info = {
        "array": np.array([1, 2]),
        "tensor": torch.tensor([0.5]),
        "scalar": np.float64(2.5),
        "tuple": ("a", 1),
        "path": Path("a/b"),
        3: {"k"},
    }
    back = load_dataset(save_dataset(tmp_path / "set", make(info=info))).info
    assert back == {
        "array": [1, 2],
        "tensor": [0.5],
        "scalar": 2.5,
        "tuple": ["a", 1],
        "path": "a/b",
        "3": ["k"],
    }
    with pytest.raises(DataError, match="info holds a object"):
        save_dataset(tmp_path / "other", make(info={"x": object()}))
    assert [p.name for p in tmp_path.iterdir()] == ["set"]


def test_an_older_one_is_replaced(tmp_path):
    save_dataset(tmp_path / "set", make())
    newer = make(info={"new": 1})
    save_dataset(tmp_path / "set", newer)
    assert equal(load_dataset(tmp_path / "set"), newer)
    assert [p.name for p in tmp_path.iterdir()] == ["set"]


def test_many_writers_leave_one_whole_entry(tmp_path):
    sets = [make(info={"writer": i}) for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda data: save_dataset(tmp_path / "set", data), sets))
    back = load_dataset(tmp_path / "set")
    assert equal(back, sets[back.info["writer"]])
    assert [p.name for p in tmp_path.iterdir()] == ["set"]


def test_a_torn_entry_is_refused(tmp_path):
    file = save_dataset(tmp_path / "set", make())
    whole = file.read_bytes()
    for broken in (whole[:-1], whole[: len(whole) // 2], b"", whole + b" {"):
        file.write_bytes(broken)
        with pytest.raises(DataError):
            load_dataset(file)
    file.unlink()
    with pytest.raises(DataError, match="not a data set, or a damaged one"):
        load_dataset(file)


@settings(max_examples=150, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(tmp_path_factory, place, bit):
    data = make(info={"words": "some text"})
    file = save_dataset(tmp_path_factory.mktemp("cache") / "set", data)
    content = bytearray(file.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    file.write_bytes(content)
    try:
        back = load_dataset(file)
    except DataError:
        return
    assert equal(back, data)  # a blank for a blank


def test_other_formats_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "FORMAT", 3)
    file = save_dataset(tmp_path / "set", make())
    monkeypatch.undo()
    with pytest.raises(DataError, match="another version"):
        load_dataset(file)


def test_digest_tells_contents_apart(tmp_path):
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("one")
    (tmp_path / "c").write_text("two")
    assert cache.digest(tmp_path / "a") == cache.digest(tmp_path / "b")
    assert cache.digest(tmp_path / "a") != cache.digest(tmp_path / "c")
    before = cache.digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "d")
    assert cache.digest(tmp_path) != before


def test_entries_tell_sources_choices_and_code_apart(monkeypatch):
    name = cache.entry("my set/1", ["abc"], {"features": ["structure"]})
    assert name.startswith("my-set-1-")
    assert cache.entry("my set/1", ["abc"], {"features": ["structure"]}) == name
    assert cache.entry("my set/1", ["abd"], {"features": ["structure"]}) != name
    assert cache.entry("my set/1", ["abc"], {"features": ["degree"]}) != name
    monkeypatch.setattr(cache, "_code", lambda: "another")
    assert cache.entry("my set/1", ["abc"], {"features": ["structure"]}) != name


def test_code_in_sub_packages_counts(tmp_path):
    package = Path(cache.__file__).parents[1]
    copied = tmp_path / "data"
    shutil.copytree(package, copied, ignore=shutil.ignore_patterns("__pycache__"))

    def code() -> str:
        spec = importlib.util.spec_from_file_location("copied", copied / "catalog" / "cache.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module._code()

    before = code()
    assert before == cache._code()
    (copied / "readers" / "new.py").write_text("CHUNK = 1")
    assert code() != before


def test_entries_not_used_for_longest_are_evicted(tmp_path, monkeypatch):
    names = [f"set-{i:020x}-{'0' * 12}.safetensors" for i in range(3)]
    ptr, rowptr = torch.tensor([0, 1]), torch.tensor([0, 0])
    data = GraphDataset(torch.ones(1, 1), ptr, rowptr, torch.empty(0, dtype=torch.int32))
    for age, name in enumerate(names):
        cache.save_dataset(tmp_path / name, data)
        os.utime(tmp_path / name, (10**9 + age, 10**9 + age))
    (tmp_path / "mine").mkdir()
    assert cache.find(tmp_path / names[0]) is not None  # now the most recent
    size = (tmp_path / names[0]).stat().st_size
    monkeypatch.setattr(cache, "LARGEST", 2 * size)
    cache.evict(tmp_path / names[2])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([names[0], names[2], "mine"])
