"""Results of a cross-validation: votes, chosen settings, scores, and tables of them."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from legs import io
from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.training.cv.protocol import CVOptions, setting_name
from legs.training.cv.store import Trained
from legs.training.predictor import check_finite
from legs.training.runs import origin
from legs.training.task import Task, to_minimize

if TYPE_CHECKING:
    import pandas as pd

# Of every method, in results.json.
_METHOD = ("method", "mean", "std", "scores", "chosen", "models", "parameters", "seconds")


@dataclass(frozen=True)
class MethodResult:
    """The scores of a method."""

    method: str
    scores: list[float]  # by test set: accuracy of the vote, or MSE of standardized targets
    chosen: list[int]  # the setting of the grid that each test set's validation losses chose
    predictions: list[Tensor]  # by test set and graph: the voted class, or original units
    parameters: int  # learned, of one model
    models: int  # trained, behind the scores
    seconds: float  # of training
    strategy: str  # how they were trained
    # Results of measures by name, and of the models behind each test set's answer, ``[models, …]``.
    measured: dict[str, list[Tensor]] = field(default_factory=dict)
    losses: list[list[float]] = field(default_factory=list)  # mean validation, by setting and set
    # By test set and graph: the mean probability of the voted class.
    probabilities: list[Tensor] = field(default_factory=list)
    # By test set and name: all scores of the mean answer, and the accuracy of the vote.
    metrics: list[dict[str, float]] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Mean over the test sets."""
        return float(np.mean(self.scores))

    @property
    def std(self) -> float:
        """Population standard deviation over the test sets, as the paper's."""
        return float(np.std(self.scores))

    @property
    def scales(self) -> list[Tensor]:
        """By test set: selection matrices of learned scales, ``[models, scales, steps]``."""
        return self.measured.get("scales", [])

    def settings(self, grid: Sequence[dict[str, Any]]) -> list[str]:
        """What each test set chose from a grid, in words."""
        if self.method == "gs-svm":  # by nested cross-validation, whatever the grid is
            return ["its own C and gamma"] * len(self.chosen)
        return [setting_name(grid[number]) for number in self.chosen]


@dataclass(frozen=True)
class CVResult:
    """A finished cross-validation.

    Args:
        data: the data set.
        options: of the protocol.
        splits: by test set and model.
        methods: results of each.
        baseline: scores of the most frequent class, or of the mean, by test set.
        device: where models were trained.
    """

    data: GraphDataset
    options: CVOptions
    splits: list[list[Split]]
    methods: list[MethodResult]
    baseline: list[float]
    device: str = "cpu"

    @property
    def guess(self) -> list[float]:
        """Deprecated name of ``baseline``."""
        warnings.warn("guess is now baseline", DeprecationWarning, stacklevel=2)
        return self.baseline

    @property
    def factor(self) -> int:
        """Of scores in tables: accuracies and average precisions are in percent."""
        return 1 if self.data.task == "regression" else 100


VALIDATION = "validation score"  # the measure that chooses a setting
_SCORE = {
    "classification": "accuracy",
    "regression": "whitened_mse",
    "multilabel": "average_precision",
}


def score_method(
    data: GraphDataset,
    planned: list[list[Split]],
    method: str,
    by_setting: list[list[list[Trained]]],
) -> MethodResult:
    """Chooses a setting for every test set on validation graphs, and scores its models.

    ``planned`` are splits by test set and model, ``by_setting`` models by setting, too.
    """
    losses = [[float(np.mean([m.validation_loss for m in g])) for g in s] for s in by_setting]
    criteria = [[np.mean([_criterion(m) for m in g]) for g in s] for s in by_setting]
    chosen = np.argmin(np.nan_to_num(criteria, nan=np.inf), axis=0).tolist()
    behind = [by_setting[best][k] for k, best in enumerate(chosen)]
    scored = [_score(data, splits, models) for splits, models in zip(planned, behind, strict=True)]
    answers, scores, sure, metrics = (list(column) for column in zip(*scored, strict=True))
    everything = [m for s in by_setting for g in s for m in g]
    first = behind[0][0]  # settings may differ in width: parameters are those of its choice
    seconds, strategies = sum(m.seconds for m in everything), {m.strategy for m in everything}
    training = (first.parameters, len(everything), seconds, "+".join(sorted(strategies)))
    measured = {
        name: [torch.stack([m.measured[name] for m in group]) for group in behind]
        for name in first.measured
        if all(name in m.measured for group in behind for m in group)
    }
    return MethodResult(method, scores, chosen, answers, *training, measured, losses, sure, metrics)


def _criterion(model: Trained) -> float:
    """What is least for the best setting: the validation loss, or a negated score."""
    score = model.measured.get(VALIDATION)
    return model.validation_loss if score is None else -float(score)


def check_metric(data: GraphDataset, split: Split, metric: str) -> None:
    """A clear error for a score that the task does not have."""
    assert data.y is not None
    task = Task.of(data, torch.as_tensor(split.train))
    to_minimize(metric, task.scores(task.baseline(data.y, split), data.y[split.test]))


def _score(
    data: GraphDataset, group: list[Split], models: list[Trained]
) -> tuple[Tensor, float, Tensor, dict[str, float]]:
    """The answer for a test set, its score, mean probabilities of voted classes, all scores."""
    assert data.y is not None
    test = group[0].test
    for model in models:
        check_finite(data, model.answers, test)
    answers = torch.stack([model.answers for model in models])
    task = Task.of(data, torch.as_tensor(group[0].train))
    mean = answers.mean(0)
    scores = task.scores(mean, data.y[test])
    if data.task == "classification":
        classes = vote(answers)
        sure = answers.double().mean(0).gather(1, classes.unsqueeze(1)).squeeze(1)
        scores["accuracy"] = float((classes == data.y[test]).double().mean())
        return classes, scores["accuracy"], sure, scores
    return mean, scores[_SCORE[task.kind]], mean.new_empty(0), scores


def baseline_scores(data: GraphDataset, planned: list[list[Split]]) -> list[float]:
    """Scores of the most frequent class, or of the mean, on every test set."""
    assert data.y is not None
    scores = []
    for split, *_ in planned:
        task, truth = Task.of(data, torch.as_tensor(split.train)), data.y[split.test]
        answers = task.baseline(data.y, split)
        scores.append(task.scores(answers, truth)[_SCORE[task.kind]])
    return scores


def vote(probabilities: Tensor) -> Tensor:
    """The class of each graph by majority of models; ``probabilities`` by model, graph and class.

    Ties are decided by the summed log-probabilities.
    """
    classes = probabilities.shape[-1]
    votes = torch.nn.functional.one_hot(probabilities.argmax(-1), classes).sum(0)
    evidence = probabilities.double().clamp_min(1e-30).log().sum(0)
    tied = votes == votes.amax(-1, keepdim=True)
    return torch.where(tied, evidence, -torch.inf).argmax(-1)


class Comparison(NamedTuple):
    """A paired comparison of two methods over the same folds."""

    difference: float  # mean of first minus second
    t: float
    p: float  # two-sided


def corrected_t_test(first: list[float], second: list[float], test_fraction: float) -> Comparison:
    r"""The corrected resampled t-test of Nadeau and Bengio (2003).

    Folds share training graphs, so the ``k`` scores of each method are not independent; the
    variance of the mean difference is taken as :math:`(1/k + f)\, s^2` with the ``test_fraction``
    :math:`f = n_\text{test} / n_\text{train}`.
    """
    difference = np.subtract(first, second)
    mean, folds = float(difference.mean()), len(difference)
    if folds < 2:
        return Comparison(mean, math.nan, math.nan)
    spread = float(difference.var(ddof=1)) * (1 / folds + test_fraction)
    if spread == 0:
        return Comparison(mean, math.copysign(math.inf, mean) if mean else 0.0, float(mean == 0))
    t = mean / math.sqrt(spread)
    return Comparison(mean, t, float(2 * stats.t.sf(abs(t), folds - 1)))


def _table(rows: list[tuple[Any, ...]], *columns: str) -> pd.DataFrame:
    import pandas as pd  # methods can be compared without

    return pd.DataFrame(rows, columns=list(columns))


def summary(result: CVResult) -> pd.DataFrame:
    """One row per method: score, spread, models, parameters, time; a baseline comes first."""
    factor, baseline = result.factor, result.baseline
    name = {"classification": "most frequent class", "multilabel": "shares of labels"}.get(
        result.data.task or "", "mean"
    )
    scores = (factor * float(np.mean(baseline)), factor * float(np.std(baseline)))
    rows: list[tuple[Any, ...]] = [(name, *scores, 0, 0, 0.0, "")]
    for m in result.methods:
        scores = (factor * m.mean, factor * m.std)
        rows.append((m.method, *scores, m.models, m.parameters, round(m.seconds, 1), m.strategy))
    columns = ("method", "mean", "std", "models", "parameters", "seconds", "trained")
    return _table(rows, *columns)


def metric_table(result: CVResult) -> pd.DataFrame:
    """All scores of all methods, mean and standard deviation over the test sets that have them."""
    rows: list[tuple[Any, ...]] = []
    for m in result.methods:
        for name in dict.fromkeys(name for scores in m.metrics for name in scores):
            values = [v for scores in m.metrics if not math.isnan(v := scores.get(name, math.nan))]
            if values:
                rows.append((m.method, name, float(np.mean(values)), float(np.std(values))))
    return _table(rows, "method", "metric", "mean", "std")


def comparisons(result: CVResult) -> pd.DataFrame:
    """Every pair of methods over the same test sets, by the corrected resampled t-test."""
    split = result.splits[0][0]
    fraction = len(split.test) / (len(split.train) + len(split.validation))
    rows: list[tuple[Any, ...]] = []
    for first, second in combinations(result.methods, 2):
        difference, t, p = corrected_t_test(first.scores, second.scores, fraction)
        rows.append((first.method, second.method, result.factor * difference, t, p))
    return _table(rows, "first", "second", "difference", "t", "p")


def choices(result: CVResult) -> pd.DataFrame:
    """Which settings were chosen on validation loss, and for which test sets.

    One row per method and setting, the most frequent first; test sets are numbered from 0, as in
    ``folds.csv``. Empty without a grid.
    """
    rows: list[tuple[Any, ...]] = []
    for method in result.methods if len(result.options.grid) > 1 else ():
        names = method.settings(result.options.grid)
        for name in sorted(dict.fromkeys(names), key=names.count, reverse=True):
            numbers = ", ".join(str(k) for k, other in enumerate(names) if other == name)
            rows.append((method.method, name, numbers))
    return _table(rows, "method", "setting", "test sets")


def markdown(table: pd.DataFrame) -> str:
    """A table in Markdown."""

    def shown(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.4g}"
        return f"{value:,}" if isinstance(value, int) else str(value).replace("|", r"\|")

    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join(map(shown, row)) + " |")
    return "\n".join(lines)


def write_results(result: CVResult, directory: str | Path, command: str = "") -> None:
    """Writes summary, comparisons, every fold's score and setting, every graph's prediction."""
    folder, chosen, grid = Path(directory), choices(result), result.options.grid
    folds: list[tuple[Any, ...]] = []
    for m in result.methods:
        columns = zip(m.scores, m.chosen, m.settings(grid), strict=True)
        folds += [(k, m.method, *values) for k, values in enumerate(columns)]
    tables = {
        "summary": summary(result),
        "comparisons": comparisons(result),
        "folds": _table(folds, "test_set", "method", "score", "setting", "chosen"),
        "metrics": metric_table(result),
        "predictions": _predictions(result),
    }
    for name, table in tables.items():
        io.write_atomically(folder / f"{name}.csv", io.csv_table(table).encode())
    text = f"# {result.data.name}\n\n{markdown(tables['summary'])}\n\n"
    if len(tables["comparisons"]):
        text += f"{markdown(tables['comparisons'])}\n"
    if len(chosen):
        text += f"\nSettings chosen on validation graphs:\n\n{markdown(chosen)}\n"
    io.write_atomically(folder / "results.md", text.encode())
    content = {
        "data": result.data.name,
        "graphs": len(result.data),
        "features": list(result.data.feature_names),
        "command": command,
        **origin(result.device),
        "options": result.options.to_json(),
        "methods": [
            {name: getattr(method, name) for name in _METHOD}
            | {"settings": method.settings(grid), "trained": method.strategy}
            for method in result.methods
        ],
        "guess": result.baseline,
        "comparisons": tables["comparisons"].to_dict("records"),
        # A reader can tell whether these tables are still what was written.
        "files": io.file_digests(folder, [*(f"{name}.csv" for name in tables), "results.md"]),
    }
    text = json.dumps(io.with_digest(content), indent=1)
    io.write_atomically(folder / "results.json", text.encode())


def _predictions(result: CVResult) -> pd.DataFrame:
    import pandas as pd

    data = result.data
    assert data.y is not None
    tests = [models[0].test for models in result.splits]
    graphs = np.concatenate(tests)
    numbers = np.repeat(np.arange(len(tests)), [len(test) for test in tests])
    columns: dict[str, Any] = {"test_set": numbers, "graph": graphs}
    if data.ids:
        columns["id"] = [data.ids[graph] for graph in graphs]
    answers = {"truth": data.y[graphs]}
    answers |= {method.method: torch.cat(method.predictions) for method in result.methods}
    if data.task == "classification":
        for name, classes in answers.items():
            columns[name] = [data.class_names[k] for k in classes.tolist()]
        for method in result.methods:
            columns[f"probability:{method.method}"] = torch.cat(method.probabilities).numpy()
    else:
        for k, target in enumerate(data.target_names):
            for name, values in answers.items():
                columns[f"{name}:{target}"] = values[:, k].double().numpy()
    return pd.DataFrame(columns)
