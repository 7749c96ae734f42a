"""
Classify graphs
===============

Cross-validation of several methods on the same partitions. The graphs are those of MUTAG (does a
compound damage DNA?) where they are on this machine, else made ones.
"""

import networkx as nx

from legs.data import available, from_objects, load
from legs.training import CVOptions, TrainingOptions, cross_validate


# %%
# Node features are eccentricity and clustering coefficient, as in the paper: structure alone.
# The other way into the package is a list of graphs and their classes.
def made():
    trees = [nx.random_labeled_tree(20, seed=i) for i in range(60)]
    rings = [nx.connected_watts_strogatz_graph(20, 2, 0.3, seed=i) for i in range(60)]
    return from_objects(trees + rings, y=["tree"] * 60 + ["ring"] * 60, name="trees and rings")


here = {known.name for known in available() if known.origin in ("LEGS_DATA", "cache")}
data = load("MUTAG", features="structure") if "MUTAG" in here else made()
print(f"{data.name}: {len(data)} graphs, classes {', '.join(data.class_names)}")

# %%
# The paper's protocol is ten partitions and nine models a test set, ``CVOptions()``. This is a
# small one: five partitions, a model each, few epochs.
options = CVOptions(
    folds=5,
    rotations=1,
    training=TrainingOptions(max_epochs=40, lr=0.01, validate_every=5),
)
result = cross_validate(data, ["legs-fcn", "legs-fixed", "gs-svm", "baseline"], options, workers=1)

# %%
# Beside the methods, what the most frequent class would get. Differences below the deviation mean
# little.
print(f"{'baseline':12} {sum(result.baseline) / len(result.baseline):.3f}")
for method in result.methods:
    print(f"{method.method:12} {method.mean:.3f} ± {method.std:.3f}")
