"""Predictions as a table that people open."""

from __future__ import annotations

import pandas as pd
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.training.task import Task


def prediction_table(
    task: Task, answers: Tensor, data: GraphDataset, truth: bool = True
) -> pd.DataFrame:
    """One row a graph: its id, SMILES where there is one, prediction, and the truth if known.

    Classes: the predicted class, and a probability for each. Numbers: in original units.
    """
    columns: dict[str, object] = {"id": data.ids or [str(i) for i in range(len(data))]}
    if data.smiles:
        columns["smiles"] = data.smiles
    if task.kind == "classification":
        columns["prediction"] = [task.names[k] for k in answers.argmax(-1).tolist()]
        for k, name in enumerate(task.names):
            columns[f"probability:{name}"] = answers[:, k].numpy()
    else:
        for k, name in enumerate(task.names):
            columns[name] = answers[:, k].numpy()
    if truth and data.y is not None:
        if task.kind == "classification":
            names = data.class_names or task.names
            columns["truth"] = [names[k] for k in data.y.tolist()]
        else:
            for k, name in enumerate(task.names):
                columns[f"truth:{name}"] = data.y[:, k].numpy()
    return pd.DataFrame(columns)
