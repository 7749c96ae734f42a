"""
Search settings with Optuna
===========================

Number of scales, moments and penalty of a pipeline, chosen by cross-validation on training graphs.
``pip install optuna``.
"""

import networkx as nx
import optuna
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legs.sklearn import GeometricScattering

graphs = [nx.watts_strogatz_graph(24, 4, 0.1, seed=i) for i in range(50)]
graphs += [nx.watts_strogatz_graph(24, 4, 0.3, seed=i) for i in range(50)]
kinds = [0] * 50 + [1] * 50
train, test, y, y_test = train_test_split(graphs, kinds, random_state=0, stratify=kinds)


def pipeline(trial):
    scattering = GeometricScattering(
        num_scales=trial.suggest_int("num_scales", 1, 5),
        num_moments=trial.suggest_int("num_moments", 1, 4),
        features="degree",
    )
    penalty = trial.suggest_float("C", 1e-3, 1e2, log=True)
    return make_pipeline(scattering, StandardScaler(), LogisticRegression(C=penalty, max_iter=1000))


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(lambda trial: cross_val_score(pipeline(trial), train, y, cv=4).mean(), n_trials=15)
score = pipeline(study.best_trial).fit(train, y).score(test, y_test)
print(study.best_params)
print(f"accuracy: {study.best_value:.2f} in cross-validation, {score:.2f} on test graphs")
