"""Models are fitted from Python objects with the core dependencies alone."""

import subprocess
import sys

EXTRAS = ("pandas", "pyarrow", "rich", "typer", "pydantic", "openpyxl", "rdkit", "ray", "plotly")
BLOCK = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))"
GRAPHS = """
import torch
from torch_geometric.data import Data

def ring(size):
    nodes = torch.arange(size)
    edges = torch.stack([nodes, nodes.roll(1)])
    x = torch.full((size, 1), size % 3.0)
    return Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=size % 2)

graphs = [ring(4 + k % 5) for k in range(40)]
labels = [graph.y for graph in graphs]
"""


def run(code):
    command = [sys.executable, "-c", BLOCK + GRAPHS + code]
    return subprocess.run(command, capture_output=True, text=True)


def test_estimators():
    done = run("""
from legs.sklearn import LEGSClassifier, LEGSRegressor
print(len(LEGSClassifier(max_epochs=2).fit(graphs, labels).predict(graphs[:3])))
print(len(LEGSRegressor(max_epochs=2).fit(graphs, labels).predict(graphs[:3])))
""")
    assert done.stdout.split() == ["3", "3"], done.stderr


def test_the_command_names_its_extra():
    done = run("import legs.cli; sys.exit(legs.cli.main(['--version']))")
    assert done.returncode == 1
    assert done.stderr == "legs: the command needs its extra: pip install 'torch-legs[cli]'\n"


def test_fit(tmp_path):
    done = run(f"""
from legs.data import from_objects
from legs.training import TrainingOptions, fit

data = from_objects(graphs, y=labels, task="classification")
options = TrainingOptions(max_epochs=2)
print(sorted(fit(data, "legs-fcn", options=options).scores))
try:
    fit(data, "legs-fcn", options=options, directory={str(tmp_path / "run")!r})
except ImportError as error:
    print(error)
""")
    lines = done.stdout.splitlines()
    assert lines[:1] == ["['guess', 'test', 'train', 'validation']"], done.stderr
    assert lines[1:] == ["the tables of a run directory need pip install 'torch-legs[cli]'"]
    assert not (tmp_path / "run").exists()
