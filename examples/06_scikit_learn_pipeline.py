"""
A scikit-learn pipeline
=======================

:class:`legs.sklearn.GeometricScattering` is a transformer: lists of graphs in, an array out. So
``cross_val_score``, ``GridSearchCV`` and any estimator work as they do with tables.
"""

import networkx as nx
import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from legs.sklearn import GeometricScattering

# %%
# Three kinds of networks, of mixed sizes, with about as many edges per node.
kinds = {
    "random": lambda n, seed: nx.gnm_random_graph(n, 2 * n, seed=seed),
    "small world": lambda n, seed: nx.watts_strogatz_graph(n, 4, 0.2, seed=seed),
    "scale-free": lambda n, seed: nx.barabasi_albert_graph(n, 2, seed=seed),
}
rng = np.random.default_rng(0)
graphs, labels = [], []
for name, make in kinds.items():
    for size in rng.integers(20, 60, 40):
        graphs.append(make(int(size), int(rng.integers(1_000_000))))
        labels.append(name)

# %%
# The scaler belongs in the pipeline: it must not see test graphs.
pipeline = make_pipeline(GeometricScattering(features="degree"), StandardScaler(), SVC())
scores = cross_val_score(pipeline, graphs, labels, cv=5)
print(f"accuracy {scores.mean():.2f} ± {scores.std():.2f}, baseline 0.33")

# %%
# Every option of scattering is a parameter to search over.
grid = {
    "geometricscattering__order": [1, 2],
    "geometricscattering__num_scales": [3, 5],
    "svc__C": [1, 10],
}
search = GridSearchCV(pipeline, grid, cv=3).fit(graphs, labels)
print(f"best: {search.best_params_}, accuracy {search.best_score_:.2f}")

# %%
# Columns have names.
names = pipeline.fit(graphs, labels)[0].get_feature_names_out()
print(f"{len(names)} columns: {', '.join(names[:5])}, …")
