"""
Your own data
=============

A folder with one GraphML file per graph and a table of labels; or a CSV file of molecules. Both are
read by :func:`legs.data.load`, and by ``legs train`` on the command line.
"""

from pathlib import Path

import networkx as nx
import pandas as pd

import legs
from legs.data import load
from legs.training import TrainingOptions, fit

# %%
# Your files may look like this. Numeric node attributes become node features, the edge attribute
# ``weight`` becomes the edge weight, and ``labels.csv`` holds the targets.
folder = Path("networks")
folder.mkdir(exist_ok=True)
rows = []
for i in range(60):
    graph = nx.random_geometric_graph(20, 0.35, seed=i) if i % 2 else nx.gnm_random_graph(20, 40, i)
    for node in graph:
        graph.nodes[node].clear()
        graph.nodes[node]["load"] = (node * 7 + i) % 5 / 5
    nx.write_graphml(graph, folder / f"network{i}.graphml")
    rows.append({"file": f"network{i}.graphml", "kind": "near" if i % 2 else "any"})
pd.DataFrame(rows).to_csv(folder / "labels.csv", index=False)

# %%
# Features can be combined: what the files hold, and what is computed from the graphs.
data = load(folder, features="attributes+structure")
print(f"{len(data)} graphs, {data.task} of {data.target_names[0]}: {', '.join(data.class_names)}")
print("node features:", ", ".join(data.feature_names))

# %%
# Train, save, load again, predict. A tenth of the graphs is held out for testing.
options = TrainingOptions(max_epochs=40, lr=0.01)
fitted = fit(data, "legs-fcn", options=options, directory="networks-run")
print(f"test accuracy: {fitted.scores['test']['accuracy']:.0%}")
model = legs.load("networks-run/model")
print(model.predict(data[:2]))

# %%
# For a CSV file of molecules, the column of SMILES, the target and its kind are detected.
table = {
    "id": ["ethanol", "benzene", "urea"],
    "smiles": ["CCO", "c1ccccc1", "NC(N)=O"],
    "boils": [78.4, 80.1, None],
}
pd.DataFrame(table).to_csv("molecules.csv", index=False)
molecules = load("molecules.csv", target="boils", on_error="skip")
print(f"{len(molecules)} molecules: {', '.join(molecules.ids)}")
for where, why in molecules.info["bad"]:
    print(f"skipped: {where}, {why}")
