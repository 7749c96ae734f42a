"""Trains the models of a cross-validation, method by method, and keeps what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Any, Literal

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.training.cv_apart import fit_ensemble, fit_machine
from legs.training.cv_ensembles import Files, keep_ensembles, train_ensembles
from legs.training.cv_grid import stacks
from legs.training.cv_measures import Measure
from legs.training.cv_plan import CVOptions
from legs.training.cv_progress import Step
from legs.training.cv_store import Store, Trained
from legs.training.cv_tracker import Pace, Tracker
from legs.training.members import Job, Way, choose_way, train_members
from legs.training.methods import ENSEMBLES
from legs.training.svm import scattering_features


def paces(methods: list[str], planned: list[list[Split]], options: CVOptions) -> list[Pace]:
    """How many models the plan has, by method."""
    models = sum(len(group) for group in planned) * len(options.grid)
    found = []
    for method in methods:
        if method == "gs-svm":
            found.append(Pace(method, len(planned), None))
        else:
            epochs = None if method in ENSEMBLES else options.training.max_epochs
            found.append(Pace(method, models, epochs))
    return found


@dataclass
class Runner:
    """Trains what is not in the store yet.

    Args:
        data: with targets.
        planned: splits by test set and model.
        options: of the cross-validation.
        model_options: for every network.
        store: where results are kept.
        tracker: told how far it is; its methods are those of the plan.
        device: where to train.
        way: how to train networks.
        workers: processes.
        chunk: models trained at once at most.
        features: whether networks keep the features of all graphs.
        measures: of networks, by name.
    """

    data: GraphDataset
    planned: list[list[Split]]
    options: CVOptions
    model_options: dict[str, Any]
    store: Store
    tracker: Tracker
    device: str
    way: Way
    workers: int
    chunk: int
    features: bool = False
    measures: Mapping[str, Measure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flat = [split for group in self.planned for split in group]
        for number, pace in enumerate(self.tracker.paces):
            for models in self._kept(pace.name):
                self.tracker.keep(number, models)

    def train(self, number: int) -> list[list[list[Trained]]]:
        """Trains a method, by its number in the plan.

        Returns:
            Models by setting of the grid, test set and rotation.
        """
        method = self.tracker.paces[number].name
        if method == "gs-svm":
            return [self._machines(number)]
        settings: dict[int, list[Trained]] = {}
        if method in ENSEMBLES and self.way == "stacked":
            settings = self._ensembles_at_once(number, method)
        elif method in ENSEMBLES:
            for setting in range(len(self.options.grid)):
                settings[setting] = self._ensembles(number, method, setting)
        else:
            before = 0
            for group in stacks(self.options.grid):
                found = self._networks(number, method, group, before)
                before += len(found)
                for place, setting in enumerate(group):
                    start = place * len(self.flat)
                    settings[setting] = found[start : start + len(self.flat)]
        ends = list(accumulate(len(group) for group in self.planned))
        return [
            [settings[k][end - len(g) : end] for end, g in zip(ends, self.planned, strict=True)]
            for k in range(len(self.options.grid))
        ]

    def jobs(self, group: list[int]) -> list[Job]:
        """The networks of settings that differ in learning rate alone, setting by setting."""
        return [
            Job(k, split, {**self.model_options, **self.options.grid[setting]})
            for setting in group
            for k, split in enumerate(self.flat)
        ]

    def _networks(self, number: int, method: str, group: list[int], before: int) -> list[Trained]:
        """All models of settings that differ in learning rate alone, setting by setting."""
        jobs = self.jobs(group)
        way = self._way(number, method, group, before, jobs)
        # One by one, little is lost with a small part; at once, a checkpoint keeps the stack.
        chunk = self.chunk if way == "stacked" else max(2 * self.workers, 2)
        found: list[Trained] = []
        while len(found) < len(jobs):
            first = len(found)
            name = self.part_name(method, group, first)
            part = self.store.load(name)  # of any size: an earlier run may have cut otherwise
            if part is None:
                some = jobs[first : first + chunk]
                last = first + len(some) - 1
                settings = group[first // len(self.flat) : last // len(self.flat) + 1]
                self.tracker.begin(number, settings, "networks", before + first, len(some))
                part = train_members(
                    method,
                    some,
                    self.data,
                    self.options.training,
                    device=self.device,
                    way=way,
                    workers=self.workers,
                    report=self.tracker,
                    checkpoint=self.store.partial(name, len(some)),
                    features=self.features,
                    measures=self.measures,
                )
                self.store.save(name, part)
                self.tracker.end(part)
            found += part
        return found

    def _way(
        self, number: int, method: str, group: list[int], before: int, jobs: list[Job]
    ) -> Literal["stacked", "single"]:
        """All at once or one by one; once decided, a run that goes on does the same."""
        if self.way != "auto":
            return self.way
        known = self.store.notes()
        key = self.way_key(method, group)
        if key not in known:
            self.tracker.begin(number, group, "trial", before, len(jobs))
            known[key] = choose_way(
                method,
                jobs,
                self.data,
                self.options.training,
                device=self.device,
                workers=self.workers,
            )
            self.store.note(known)
        return "stacked" if known[key] == "stacked" else "single"

    def _machines(self, number: int) -> list[list[Trained]]:
        """One a test set: no partition validates, so none rotates."""
        found = []
        features = cache(lambda: scattering_features(self.data))  # if any is needed at all
        for k, group in enumerate(self.planned):

            def fit(split: Split = group[0]) -> Trained:
                training = self.options.training
                return fit_machine(self.data, split, training, self.workers, features())

            found.append(self._apart(number, f"gs-svm-{k}", (), "machine", k, fit))
        return found

    def _ensembles(self, number: int, method: str, setting: int) -> list[Trained]:
        found = []
        for k, split in enumerate(self.flat):

            def fit(split: Split = split, k: int = k) -> Trained:
                return fit_ensemble(
                    method,
                    self.data,
                    split,
                    self.options.training,
                    self.options.grid[setting],
                    k,
                    device=self.device,
                    report=self.tracker,
                )

            name = self.ensemble_name(method, setting, k)
            place = setting * len(self.flat) + k
            found += self._apart(number, name, (setting,), "ensemble", place, fit)
        return found

    def _ensembles_at_once(self, number: int, method: str) -> dict[int, list[Trained]]:
        """All models by setting; those of settings that differ in learning rate alone as one."""
        settings: dict[int, list[Trained]] = {}
        for group in stacks(self.options.grid):
            places = [(setting, k) for setting in group for k in range(len(self.flat))]
            jobs = [Job(k, self.flat[k], self.options.grid[setting]) for setting, k in places]

            def train(some: list[Job], files: Files, group: list[int] = group) -> list[Trained]:
                place = self.tracker.paces[number].done
                self.tracker.begin(number, group, "ensemble", place, len(some))
                found = train_ensembles(
                    method,
                    some,
                    self.data,
                    self.options.training,
                    device=self.device,
                    report=self.tracker,
                    checkpoints=files,
                )
                self.tracker.end(found)
                return found

            names = [self.ensemble_name(method, setting, k) for setting, k in places]
            found = keep_ensembles(method, names, jobs, self.store, train, self.chunk)
            for start, setting in zip(range(0, len(found), len(self.flat)), group, strict=True):
                settings[setting] = found[start : start + len(self.flat)]
        return settings

    def _apart(
        self,
        number: int,
        name: str,
        settings: Sequence[int],
        step: Step,
        place: int,
        fit: Callable[[], Trained],
    ) -> list[Trained]:
        """A model that is kept by itself."""
        part = self.store.load(name)
        if part is None:
            self.tracker.begin(number, settings, step, place)
            part = [fit()]
            self.store.save(name, part)
            self.tracker.end(part)
        return part

    def _kept(self, method: str) -> Iterator[list[Trained]]:
        """What earlier runs have finished of a method."""
        settings = range(len(self.options.grid))
        if method == "gs-svm":
            names = [f"gs-svm-{k}" for k in range(len(self.planned))]
        elif method in ENSEMBLES:
            models = range(len(self.flat))
            names = [self.ensemble_name(method, s, k) for s in settings for k in models]
        else:
            for group in stacks(self.options.grid):
                first = 0
                while part := self.store.load(self.part_name(method, group, first)):
                    yield part
                    first += len(part)
            return
        yield from (part for part in map(self.store.load, names) if part)

    def ensemble_name(self, method: str, setting: int, number: int) -> str:
        """Of an ensemble in the store."""
        # Without a grid, the name that has always been.
        plain = self.options.grid == ({},)
        return f"{method}-{number}" if plain else f"{method}-{setting}-{number}"

    @staticmethod
    def part_name(method: str, group: list[int], first: int) -> str:
        """Of networks in the store: those from number ``first`` of settings of one stack."""
        return f"{method}-{group[0]}-{first}"

    @staticmethod
    def way_key(method: str, group: list[int]) -> str:
        """Of the way that networks are trained, in the store's notes."""
        return f"{method}-{group[0]}"
