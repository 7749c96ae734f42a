"""
Classify graphs
===============

Cross-validation of several methods on the same folds. The graphs are those of MUTAG (does a
compound damage DNA?) if they are on this machine, and synthetic ones otherwise.
"""

import networkx as nx

from legs.data import available, from_objects, load
from legs.training import CVOptions, TrainingOptions, cross_validate


# %%
# Node features are eccentricity and clustering coefficient, as in the paper: structure alone.
# Without MUTAG, a list of graphs and their classes does.
def synthetic():
    trees = [nx.random_labeled_tree(20, seed=i) for i in range(60)]
    rings = [nx.connected_watts_strogatz_graph(20, 2, 0.3, seed=i) for i in range(60)]
    return from_objects(trees + rings, y=["tree"] * 60 + ["ring"] * 60, name="trees and rings")


here = {each.name for each in available() if each.origin in ("LEGS_DATA", "cache")}
data = load("MUTAG", features="structure") if "MUTAG" in here else synthetic()
print(f"{data.name}: {len(data)} graphs, classes {', '.join(data.class_names)}")

# %%
# The paper's protocol, ``CVOptions()``, is ten folds and nine models per test fold. This one is
# small: five folds, one model each, few epochs.
options = CVOptions(
    folds=5,
    rotations=1,
    training=TrainingOptions(max_epochs=40, lr=0.01, validate_every=5),
)
result = cross_validate(data, ["legs-fcn", "legs-fixed", "gs-svm", "baseline"], options, workers=1)

# %%
# The baseline always predicts the most frequent class. Differences below the standard deviation
# mean little.
print(f"{'baseline':12} {sum(result.baseline) / len(result.baseline):.3f}")
for method in result.methods:
    print(f"{method.method:12} {method.mean:.3f} ± {method.std:.3f}")
