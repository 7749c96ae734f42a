"""``legs bench``: the table on the screen, and what can be wrong on the command line."""

from __future__ import annotations

import pytest
import torch

import legs.cli.bench as command
from legs.cli import main
from legs.data.dataset import GraphBatch
from tests.cli.molecules import told

METHODS = ("torch-legs", "reference", "GCN", "GIN")


def tiny(console, edges):
    """Two triangles."""
    ends = torch.tensor(
        [[0, 1, 2, 3, 4, 5, 1, 2, 0, 4, 5, 3], [1, 2, 0, 4, 5, 3, 0, 1, 2, 3, 4, 5]]
    )
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    yield "two triangles", GraphBatch(torch.randn(6, 2), ends, None, batch, 2, None)


def test_a_run(capsys, monkeypatch):
    monkeypatch.setattr(command, "_cases", tiny)
    before = torch.get_num_threads()
    assert main(["bench", "--quick", "--device", "cpu", "--threads", "1"]) == 0
    assert torch.get_num_threads() == before
    out = capsys.readouterr().out
    assert f"1 threads, PyTorch {torch.__version__}" in out
    assert "× reference" in out
    assert "\x1b" not in out  # no colours or bars where nobody looks
    lines = [line for line in out.splitlines() if "two triangles" in line]
    assert [sum(name in line for line in lines) for name in METHODS] == [2] * 4
    assert all(float(line.split()[-2]) > 0 for line in lines)
    # The ratio of the reference to itself.
    assert [line.split()[-1] for line in lines if "reference" in line] == ["1", "1"]


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
    [(["--threads", "0"], ["--threads"]), (["--device", "abacus"], ["--device", "abacus"])],
)
def test_errors_are_one_line(args, words, capsys):
    assert main(["bench", "--quick", *args]) == 2
    err = told(capsys)
    for word in words:
        assert word in err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_one_line(capsys):
    assert main(["bench", "--quick", "--device", "cuda"]) == 1
    assert "no CUDA device" in told(capsys)
