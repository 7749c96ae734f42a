"""``legs bench``: the file, the table on the screen, and what can be wrong on the command line."""

from __future__ import annotations

import json

import pytest
import torch

import legs.cli.bench as command
from legs.cli import main
from legs.data.dataset import GraphBatch
from tests.cli.molecules import told


def tiny(console, edges):
    """Two triangles."""
    ends = torch.tensor(
        [[0, 1, 2, 3, 4, 5, 1, 2, 0, 4, 5, 3], [1, 2, 0, 4, 5, 3, 0, 1, 2, 3, 4, 5]]
    )
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    yield "two triangles", GraphBatch(torch.randn(6, 2), ends, None, batch, 2, None)


def test_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "_cases", tiny)
    folder, before = tmp_path / "new" / "results", torch.get_num_threads()
    assert main(["bench", "--quick", "--device", "cpu", "--threads", "1", "-o", str(folder)]) == 0
    out = capsys.readouterr().out
    known = json.loads((folder / "bench.json").read_text())
    assert {(row["work"], row["method"]) for row in known["rows"]} == {
        (work, method)
        for work in ("train step", "inference")
        for method in ("torch-legs", "reference", "GCN", "GIN")
    }
    assert all(row["seconds"] > 0 for row in known["rows"])
    assert (known["threads"], torch.get_num_threads()) == (1, before)
    assert known["versions"]["torch"] == torch.__version__
    lines = [line for line in out.splitlines() if "reference" in line and "two triangles" in line]
    assert len(lines) == 2
    assert all(line.split()[-1] == "1" for line in lines)  # the ratio of the reference to itself
    assert "× reference" in out
    assert str(folder) in out
    assert "\x1b" not in out  # no colours or bars where nobody looks
    assert main(["bench", "--quick", "--device", "cpu", "-o", str(folder)]) == 0


def test_what_is_missing_is_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("LEGS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lines = []
    console = type("Console", (), {"echo": lambda self, line: lines.append(line)})()
    cases = dict(command._cases(console, 400))
    torus = cases["torus, 400 edges"]
    assert torus.edge_index.shape == (2, 400)
    assert torch.bincount(torus.edge_index[0]).tolist() == [4] * 100
    assert [line for line in lines if "PROTEINS" in line] == [
        "left out: PROTEINS: not on this machine; `legs datasets PROTEINS` fetches it"
    ]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--threads", "0"], ["--threads"]),
        (["--device", "abacus"], ["--device", "abacus"]),
        (["-o", "FILE"], ["taken.txt", "directory"]),
    ],
)
def test_errors_are_one_line(args, words, tmp_path, capsys):
    taken = tmp_path / "taken.txt"
    taken.write_text("mine")
    given = [str(taken) if arg == "FILE" else arg for arg in args]
    folder = [] if "-o" in args else ["-o", str(tmp_path / "results")]
    assert main(["bench", "--quick", *given, *folder]) in (1, 2)
    err = told(capsys)
    for word in words:
        assert word in err
    assert taken.read_text() == "mine"
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_one_line(tmp_path, capsys):
    folder = tmp_path / "results"
    assert main(["bench", "--quick", "--device", "cuda", "-o", str(folder)]) == 1
    assert "no CUDA device" in told(capsys)
    assert not folder.exists()
