"""Predictions for a file, row by row, and scores where the file has the truth."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from legs.data.errors import DataError, DataWarning, OnError
from legs.data.readers.targets import Array, parse_column, parse_number
from legs.inference.inputs import InputPart, Reading, iter_results
from legs.inference.table_writer import ResultWriter
from legs.training.predictor import Predictor
from legs.training.task import Task, prediction_columns, public_columns

CHUNK = 5_000  # rows of a table that are read and predicted at a time


@dataclass(frozen=True)
class Predicted:
    """What :func:`predict_file` did."""

    rows: int  # of the output, one for each of the input
    skipped: int  # rows without a prediction
    scored: int  # rows whose truth is known
    scores: dict[str, float]  # of these, by name; empty if there are none
    unscored: tuple[str, ...]  # truths that are no class of the model, or no number
    bad_file: Path | None = None  # lists the rows without a prediction, if there are any
    seen: int | None = None  # scored rows of the training data; None if the model does not know
    unseen_scores: dict[str, float] = field(default_factory=dict)  # of the other rows
    salts: int = 0  # rows of which the largest fragment was read


def predict_file(
    predictor: Predictor,
    path: str | Path,
    out: str | Path,
    *,
    on_error: OnError = "raise",
    smiles_column: str | None = None,
    id_column: str | None = None,
    chunk: int = CHUNK,
    batch_size: int = 512,
    report: Callable[[int], None] = lambda rows: None,
) -> Predicted:
    """Writes a table of predictions: a row for each row of the input, in its order.

    Columns: ``id``; ``measured:T`` where the input has the target T; ``predicted:T`` in its own
    units, with the ends ``lower:T`` and ``upper:T`` of an interval that holds nine of ten new
    values, or the class, and ``probability:T=CLASS``; for molecules ``nearest``, ``similarity`` and
    ``unlike_training`` (see :mod:`legs.training.neighbors`); with ``on_error="skip"`` also
    ``error``, which says why a row has no prediction; the other columns of the input.
    ``OUT.bad_rows.csv`` beside the output lists rows without a prediction.

    Args:
        predictor: the model.
        path: a file, a folder or the name of a data set.
        out: a CSV, TSV or Parquet file; written whole or not at all.
        on_error: ``"raise"`` (default) stops at the first bad row; ``"skip"`` continues.
        smiles_column: of the input (default: as in training, or found).
        id_column: of the input (default: as in training, or found).
        chunk: rows of a table at a time.
        batch_size: graphs at a time.
        report: called with the number of rows done.
    """
    reading = Reading.of(predictor, smiles_column=smiles_column, id_column=id_column)
    reading = replace(reading, others=True)
    task, truths, salts = predictor.task, _Truths(predictor.task), 0
    target = [*predictor.input.get("targets", ()), "class"][0]
    compute = partial(predictor.answers, batch_size=batch_size)
    with ResultWriter(out, path, on_error) as writer:
        for part, result in iter_results(reading, path, compute, chunk=chunk, on_error=on_error):
            answers = torch.empty(0, len(task.names)) if result is None else result
            table = _table(task, answers, part)
            if part.targets is not None:
                truths.add(table, part, answers)
                if part.data is not None and (seen := predictor.in_training(part.data)) is not None:
                    truths.seen.append(seen)
            if part.data is not None:
                salts += part.data.info.get("salts", 0)
            table = public_columns(task, table, target, predictor.half_widths)
            if predictor.neighbors is not None:
                near = predictor.neighbors.nearest(() if part.data is None else part.data.smiles)
                columns = pd.DataFrame(near, index=part.index).reindex(table.index)
                columns["nearest"] = columns["nearest"].astype("string")
                columns["unlike_training"] = columns["unlike_training"].astype("boolean")
                table = table.join(columns)
            if on_error == "skip":
                table["error"] = pd.array([e or None for e in part.errors], dtype="string")
            writer.table.add(_with_others(table, part))
            writer.add_bad(part.bad())
            report(writer.table.rows)
        rows, skipped = writer.table.rows, writer.skipped
        if skipped == rows:
            raise DataError(f"{path} holds no row that can be used: {part.errors[0]}")
    scored, scores = truths.scores()
    unscored = tuple(sorted(truths.unscored))
    done = Predicted(rows, skipped, scored, scores, unscored, writer.bad_file, salts=salts)
    if not truths.seen:
        return done
    unseen, unseen_scores = truths.scores(unseen=True)
    return replace(done, seen=scored - unseen, unseen_scores=unseen_scores)


def _table(task: Task, answers: Tensor, part: InputPart) -> pd.DataFrame:
    """Predictions with a row for each row of the input."""
    columns = prediction_columns(task, answers)
    predicted = pd.DataFrame(columns, index=part.index).reindex(range(len(part)))
    if task.kind == "classification":
        predicted["prediction"] = predicted["prediction"].astype("string")
    predicted.insert(0, "id", pd.Series(part.ids, dtype="string"))
    return predicted


def _with_others(table: pd.DataFrame, part: InputPart) -> pd.DataFrame:
    """Results, then the columns of the input, as text, or else the SMILES of molecules."""
    others = part.others
    if others is None:
        others = pd.DataFrame({"smiles": part.smiles} if part.smiles else {}, index=table.index)
    others = others.astype("string").set_axis(table.index)
    return table.join(others[[name for name in others if name not in table]])


class _Truths:
    """Gathers the truths and answers of all parts, for scores."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.answers: list[Tensor] = []
        self.truths: list[Tensor] = []
        self.unscored: set[str] = set()
        self.commas: dict[str, bool | None] = {}  # whether they are decimal, by column
        self.seen: list[Tensor] = []

    def add(self, table: pd.DataFrame, part: InputPart, answers: Tensor) -> None:
        """Adds the truths of a part, and puts them into its table."""
        truth = part.targets
        assert truth is not None
        if self.task.kind == "classification":
            number = {name: k for k, name in enumerate(self.task.names)}
            names = [_name(value, number) for value in truth.iloc[:, 0]]
            y = torch.tensor([number.get(name or "", -1) for name in names], dtype=torch.long)
            self.unscored |= {name for name in names if name is not None and name not in number}
            column = pd.Series(names, index=part.index, dtype="string")
            table["truth"] = column.reindex(range(len(table)))
        else:
            where = [part.where[row] for row in part.index]
            columns = []
            for name in self.task.names:
                columns.append(np.full(len(answers), np.nan))
                if name in truth:
                    columns[-1] = self._numbers(truth[name], where)
                    column = pd.Series(columns[-1], index=part.index, dtype="float64")
                    table[f"truth:{name}"] = column.reindex(range(len(table)))
            y = torch.from_numpy(np.stack(columns, axis=1)).float()
        self.answers.append(answers)
        self.truths.append(y)

    def _numbers(self, values: pd.Series[Any], where: Sequence[str]) -> Array:
        """A column as in training; what is no number there is not scored."""
        name = str(values.name)
        column = parse_column(name, values, where, self.commas.get(name))
        if column.refusal:  # predictions do not need it
            warnings.warn(f"{column.refusal}; not scored", DataWarning, stacklevel=2)
            return np.full(len(values), np.nan)
        self.commas[column.name] = column.comma
        odd = column.present & ~np.isfinite(column.number)
        if self.task.kind == "multilabel":
            odd = column.present & ~np.isin(column.number, (0, 1))
        self.unscored |= {str(value)[:40] for value in column.raw[odd]}
        return np.where(odd, np.nan, column.number)

    def scores(self, unseen: bool = False) -> tuple[int, dict[str, float]]:
        """How many rows have a truth, and their scores; ``unseen``: outside the training data."""
        if not self.truths:
            return 0, {}
        answers, truth = torch.cat(self.answers), torch.cat(self.truths)
        classes = self.task.kind == "classification"
        chosen = truth >= 0 if classes else ~truth.isnan().all(1)
        if unseen:
            chosen &= ~torch.cat(self.seen)
        if not bool(chosen.any()):
            return 0, {}
        return int(chosen.sum()), self.task.scores(answers[chosen], truth[chosen])


def _name(value: Any, classes: Collection[str]) -> str | None:
    """A class as training names it: whole numbers without a point; ``None`` for a gap."""
    if not isinstance(value, str) and pd.isna(value):
        return None
    text = str(value).strip()
    if text in classes:
        return text
    try:
        number = parse_number(text)
    except DataError:
        return text.replace(",", ".") if text.replace(",", ".") in classes else text or None
    if not math.isfinite(number):
        return text
    return str(int(number)) if number.is_integer() else str(number)
