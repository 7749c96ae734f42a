"""The library without its extras: graphs from Python and TU folders need no pandas or pyarrow."""

from __future__ import annotations

import subprocess
import sys

from tests.data.tu_sets import TWO_GRAPHS, write_folder

BLOCKED = ("pandas", "pyarrow", "typer", "rich", "filelock", "openpyxl", "pooch")
SCRIPT = """
import sys

for name in {blocked}:
    sys.modules[name] = None

import numpy as np
import torch
from torch_geometric.data import Data

from legs.data import DataError, available, from_objects, load

{body}
assert not [name for name in {blocked} if sys.modules[name] is not None]
"""


def run(body: str, *arguments: str) -> str:
    script = SCRIPT.format(blocked=BLOCKED, body=body)
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_objects() -> None:
    body = """
path = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
for y, task in [(["a", "b"], "classification"), ([0.5, 1.5], "regression")]:
    for graphs in ([path, path], [np.eye(2), np.ones((3, 3))]):
        assert from_objects(graphs, y=y).task == task
several = from_objects([path, path], y=[[1.5, None], [0.5, 2.0]])
assert several.target_names == ("y0", "y1") and several.y.isnan().sum() == 1
assert available()
"""
    run(body)


def test_a_tu_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = write_folder(tmp_path / "set", TWO_GRAPHS)
    body = "data = load(sys.argv[1])\nprint(data.sizes.tolist(), data.y.tolist(), data.x.tolist())"
    from legs.data import load

    data = load(folder, cache=False)
    expected = f"{data.sizes.tolist()} {data.y.tolist()} {data.x.tolist()}"
    assert run(body, str(folder)).strip() == expected


def test_what_is_missing_is_named(tmp_path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("smiles,y\nC,1\n")
    body = """
try:
    load(sys.argv[1])
except DataError as error:
    print(error)
"""
    assert "pip install 'torch-legs[cli]'" in run(body, str(table))
