"""The benchmark of tables of molecules, with a stand-in for chemprop."""

import json
import sys

import pandas as pd
import pytest

pytest.importorskip("rdkit", reason="the tables hold SMILES")

from benchmarks import chemistry
from tests.cli.molecules import rows

# Predicts what was measured, in the form of chemprop 2.
PERFECT = """#!{python}
import sys
from pathlib import Path
import pandas as pd
option = {{name: sys.argv[k + 1] for k, name in enumerate(sys.argv) if name.startswith("--")}}
table = pd.read_csv(option["--data-path"])
assert set(table["split"]) == {{"train", "val", "test"}}
out = Path(option["--output-dir"]) / "model_0"
out.mkdir(parents=True)
test = table[table["split"] == "test"].drop(columns="split")
test.to_csv(out / "test_predictions.csv", index=False)
"""


def test_cells_and_table(tmp_path, monkeypatch, capsys):
    table = pd.DataFrame(rows(60)).rename(columns={"weight": "logSolubility"})
    table[["smiles", "logSolubility"]].to_csv(tmp_path / "esol.csv", index=False)
    program = tmp_path / "environment" / "bin" / "chemprop"
    program.parent.mkdir(parents=True)
    program.write_text(PERFECT.format(python=sys.executable))
    program.chmod(0o755)
    words = ["chemistry", str(tmp_path / "cells"), "--data", str(tmp_path), "--sets", "esol"]
    words += ["--splits", "random", "--seeds", "2", "--chemprop", str(tmp_path / "environment")]
    words += ["--methods", "forest-default", "kernel", "chemprop"]
    monkeypatch.setattr(sys, "argv", words)
    chemistry.main()
    cells = [json.loads(path.read_text()) for path in (tmp_path / "cells/scores").iterdir()]
    assert len(cells) == 6
    scores = {cell["method"]: cell["score"] for cell in cells}
    assert scores["chemprop"] == pytest.approx(0, abs=1e-6)
    assert min(scores["kernel"], scores["forest-default"]) > 0
    capsys.readouterr()
    chemistry.main()  # nothing is run again
    out = capsys.readouterr().out
    assert out.startswith("# Tables of molecules")
    assert "\n| chemprop | 1.0 |" in out
    assert (tmp_path / "cells/results.md").read_text() in out
