"""The paper's protocol: partitions, rotations, votes, and honest comparisons."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split, save_splits
from legs.training.cv_plan import CVOptions, plan_splits
from legs.training.cv_store import Store, Trained, answers_of
from legs.training.fit import fingerprint, fingerprint_split
from legs.training.members import Way, choose_way, train_members
from legs.training.methods import ENSEMBLES, check_method, fit_method
from legs.training.predictor import NetworkAnswerer
from legs.training.svm import fit_svm
from legs.training.task import Task
from legs.training.votes import vote

Progress = Callable[[str], None]


@dataclass(frozen=True)
class MethodResult:
    """What a method reached.

    Args:
        method: its name.
        scores: of each test set: accuracy of the vote, or mean squared error of whitened targets.
        chosen: the setting of the grid that each test set's validation losses chose.
        predictions: of each test set, by graph: the voted class, or numbers in original units.
        parameters: learned, of one model.
        models: trained models behind the scores.
        seconds: of training.
        way: how they were trained.
    """

    method: str
    scores: list[float]
    chosen: list[int]
    predictions: list[Tensor]
    parameters: int
    models: int
    seconds: float
    way: str

    @property
    def mean(self) -> float:
        """Mean over the test sets."""
        return float(np.mean(self.scores))

    @property
    def std(self) -> float:
        """Population standard deviation over the test sets, as the paper's."""
        return float(np.std(self.scores))


@dataclass(frozen=True)
class CVResult:
    """A finished cross-validation."""

    data: GraphDataset
    options: CVOptions
    splits: list[list[Split]]
    methods: list[MethodResult]
    guess: list[float]


def cross_validate(
    data: GraphDataset,
    methods: list[str],
    options: CVOptions | None = None,
    *,
    splits: list[Split] | None = None,
    model_options: dict[str, Any] | None = None,
    directory: str | Path | None = None,
    device: str = "cpu",
    way: Way = "auto",
    workers: int | None = None,
    chunk: int = 90,
    progress: Progress = lambda line: None,
) -> CVResult:
    """Cross-validates methods on the same partitions.

    Args:
        data: with targets.
        methods: names, as :func:`legs.training.methods` lists them.
        options: the protocol (default: the paper's).
        splits: a user's own, one a fold.
        model_options: options for every network.
        directory: where to keep results. A run that was killed goes on from there.
        device: where to train (default ``"cpu"``).
        way: ``"stacked"``, ``"single"``, or ``"auto"``: what a trial finds faster.
        workers: processes for one by one on the CPU (default: one a core).
        chunk: models trained at once at most.
        progress: called with a line for people now and then.
    """
    options = options or CVOptions()
    for method in methods:
        check_method(method)
    planned = plan_splits(data, options, splits)
    flat = [split for group in planned for split in group]
    settings = {
        "data": fingerprint(data),
        "options": options.to_json(),
        "model_options": model_options or {},
        "splits": [fingerprint_split(split) for split in flat],
    }
    folder = None if directory is None else Path(directory)
    store = Store(folder, settings)
    if folder is not None and not (folder / "splits.json").exists():
        save_splits(folder / "splits.json", flat)
    run = _Run(
        data,
        planned,
        options,
        dict(model_options or {}),
        store,
        device,
        way,
        workers or os.cpu_count() or 1,
        chunk,
        progress,
    )
    found = [run.method(method) for method in methods]
    return CVResult(data, options, planned, found, _guess(data, planned, options))


@dataclass
class _Run:
    data: GraphDataset
    planned: list[list[Split]]
    options: CVOptions
    model_options: dict[str, Any]
    store: Store
    device: str
    way: Way
    workers: int
    chunk: int
    progress: Progress

    def method(self, method: str) -> MethodResult:
        if method == "gs-svm":
            trained = [[self._machines()]]
        elif method in ENSEMBLES:
            trained = [[self._ensembles(method)]]
        else:
            trained = [[self._networks(method, k)] for k in range(len(self.options.grid))]
        by_setting = [setting[0] for setting in trained]
        chosen, scores, predictions = [], [], []
        for number, group in enumerate(self.planned):
            losses = [np.mean([m.validation_loss for m in s[number]]) for s in by_setting]
            best = int(np.argmin(losses))
            chosen.append(best)
            answer, score = _score(self.data, group, by_setting[best][number])
            predictions.append(answer)
            scores.append(score)
        everything = [m for s in by_setting for g in s for m in g]
        seconds = sum(m.seconds for m in everything)
        ways = sorted({m.way for m in everything})
        return MethodResult(
            method,
            scores,
            chosen,
            predictions,
            everything[0].parameters,
            len(everything),
            seconds,
            "+".join(ways),
        )

    def _networks(self, method: str, setting: int) -> list[list[Trained]]:
        flat = [split for group in self.planned for split in group]
        chosen = {**self.model_options, **self.options.grid[setting]}
        way = self._way(method, setting, chosen, flat)
        # One by one, little is lost with a small group; at once, a checkpoint keeps the stack.
        chunk = self.chunk if way == "stacked" else max(2 * self.workers, 2)
        found: list[Trained] = []
        for first in range(0, len(flat), chunk):
            name = f"{method}-{setting}-{first}"
            part = self.store.load(name)
            if part is None:

                def report(epoch: int, running: int, best: float, first: int = first) -> None:
                    self.progress(
                        f"{method}: models {first + 1} to "
                        f"{min(first + chunk, len(flat))} of {len(flat)}, epoch {epoch}, "
                        f"{running} running, best loss {best:.4f}"
                    )

                part = train_members(
                    method,
                    chosen,
                    self.data,
                    flat[first : first + chunk],
                    self.options.training,
                    device=self.device,
                    way=way,
                    first_number=first,
                    workers=self.workers,
                    report=report,
                    checkpoint=self.store.partial(name),
                )
                self.store.save(name, part)
            found += part
        return self._by_test_set(found)

    def _way(
        self, method: str, setting: int, chosen: dict[str, Any], flat: list[Split]
    ) -> Literal["stacked", "single"]:
        """All at once or one by one; once decided, a run that goes on does the same."""
        if self.way != "auto":
            return self.way
        known = self.store.notes()
        key = f"{method}-{setting}"
        if key not in known:
            self.progress(f"{method}: trying which way is faster")
            known[key] = choose_way(
                method,
                chosen,
                self.data,
                flat,
                self.options.training,
                device=self.device,
                workers=self.workers,
            )
            self.store.note(known)
        return "stacked" if known[key] == "stacked" else "single"

    def _machines(self) -> list[list[Trained]]:
        """GS-SVM needs no validation graphs: one machine a test set, trained on all the others."""
        found = []
        for number, group in enumerate(self.planned):
            part = self.store.load(f"gs-svm-{number}")
            if part is None:
                self.progress(f"gs-svm: test set {number + 1} of {len(self.planned)}")
                part = [self._machine(group[0])]
                self.store.save(f"gs-svm-{number}", part)
            found.append(part)
        return found

    def _machine(self, split: Split) -> Trained:
        start = time.monotonic()
        train = torch.as_tensor(np.sort(np.concatenate([split.train, split.validation])))
        task = Task.of(self.data, train, self.options.training.balanced)
        validation = torch.as_tensor(split.validation)
        machine = fit_svm(self.data, task, train, validation, folds=3, workers=self.workers)
        test = self.data.subset(split.test)
        answers = machine.answers(test, task, 512)
        return Trained(
            answers, 0.0, 0, 0, machine.num_parameters(), time.monotonic() - start, "svm"
        )

    def _ensembles(self, method: str) -> list[list[Trained]]:
        found = []
        flat = [split for group in self.planned for split in group]
        for number, split in enumerate(flat):
            part = self.store.load(f"{method}-{number}")
            if part is None:
                self.progress(f"{method}: model {number + 1} of {len(flat)}")
                part = [self._ensemble(method, split, number)]
                self.store.save(f"{method}-{number}", part)
            found += part
        return self._by_test_set(found)

    def _ensemble(self, method: str, split: Split, number: int) -> Trained:
        start = time.monotonic()
        training = self.options.training
        task = Task.of(self.data, torch.as_tensor(split.train), training.balanced)
        training = replace(training, seed=training.seed * 100_003 + number)
        answerer, state = fit_method(method, self.data, split, task, training, device=self.device)
        assert isinstance(answerer, NetworkAnswerer)
        answers = answerer.answers(self.data.subset(split.test), task, 512)
        return Trained(
            answers,
            state.best_loss,
            state.best_epoch,
            state.epoch,
            answerer.num_parameters(),
            time.monotonic() - start,
            "single",
        )

    def _by_test_set(self, models: list[Trained]) -> list[list[Trained]]:
        grouped, start = [], 0
        for group in self.planned:
            grouped.append(models[start : start + len(group)])
            start += len(group)
        return grouped


def _score(data: GraphDataset, group: list[Split], models: list[Trained]) -> tuple[Tensor, float]:
    """The answer for a test set and its score."""
    assert data.y is not None
    test = torch.as_tensor(group[0].test)
    answers = answers_of(models)
    if data.task == "classification":
        classes = vote(answers)
        return classes, float((classes == data.y[test]).double().mean())
    task = Task.of(data, torch.as_tensor(group[0].train))
    mean = answers.mean(0)
    return mean, task.scores(mean, data.y[test])["whitened_mse"]


def _guess(data: GraphDataset, planned: list[list[Split]], options: CVOptions) -> list[float]:
    """Scores of the most frequent class, or of the mean, on every test set."""
    assert data.y is not None
    scores = []
    for group in planned:
        train, test = torch.as_tensor(group[0].train), torch.as_tensor(group[0].test)
        task = Task.of(data, train)
        if task.kind == "classification":
            most = torch.bincount(data.y[train]).argmax()
            scores.append(float((data.y[test] == most).double().mean()))
        else:
            assert task.mean is not None
            guess = task.mean.expand(len(test), -1)
            scores.append(task.scores(guess, data.y[test])["whitened_mse"])
    return scores
