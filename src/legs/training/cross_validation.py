"""The paper's protocol: partitions, rotations, votes, and honest comparisons."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from legs.data.dataset import GraphDataset
from legs.data.splits import Split, save_splits
from legs.engine import Engine
from legs.files import one_writer
from legs.training.cv_grid import check_grid
from legs.training.cv_measures import Measure
from legs.training.cv_plan import CVOptions, plan_splits
from legs.training.cv_progress import CVProgress
from legs.training.cv_runner import Runner, paces
from legs.training.cv_scores import CVResult, MethodResult, guess_scores, score_method
from legs.training.cv_spread import spread
from legs.training.cv_store import Store
from legs.training.cv_tracker import Tracker
from legs.training.fit import fingerprint, fingerprint_split
from legs.training.members import Way

__all__ = ["CVOptions", "CVProgress", "CVResult", "MethodResult", "Progress", "cross_validate"]

Progress = Callable[[CVProgress], None]


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
    keep_features: bool = False,
    measures: Mapping[str, Measure] | None = None,
    progress: Progress = lambda facts: None,
    engine: Engine | None = None,
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
        keep_features: whether results hold the graph features of every network (default: no).
        measures: what to take from every trained network, by name, such as
            :func:`legs.training.cv_measures.train_mse` (default: nothing).
        progress: called now and then with how far the whole plan is; ``str`` of that is a line
            for people.
        engine: whose workers train, such as those of a cluster; needs ``directory`` (default: one
            method after the other, here).
    """
    options = options or CVOptions()
    methods = list(dict.fromkeys(methods))
    check_grid(methods, options.grid)
    planned = plan_splits(data, options, splits)
    flat = [split for group in planned for split in group]
    settings: dict[str, Any] = {
        "data": fingerprint(data),
        "options": options.to_json(),
        "model_options": model_options or {},
        "splits": [fingerprint_split(split) for split in flat],
    }
    if keep_features:
        settings["features"] = True
    if measures:
        settings["measures"] = sorted(measures)
    folder = None if directory is None else Path(directory)
    training = options.training
    tracker = Tracker(
        paces(methods, planned, options),
        training.max_epochs,
        training.validate_every,
        len(options.grid),
        progress,
    )
    with nullcontext() if folder is None else one_writer(folder):
        store = Store(folder, settings)
        if folder is not None and not (folder / "splits.json").exists():
            save_splits(folder / "splits.json", flat)
        runner = Runner(
            data,
            planned,
            options,
            dict(model_options or {}),
            store,
            tracker,
            device,
            way,
            workers or os.cpu_count() or 1,
            chunk,
            keep_features,
            measures or {},
        )
        if engine is not None:
            spread(runner, engine)
        found = [
            score_method(data, planned, method, runner.train(number))
            for number, method in enumerate(methods)
        ]
    return CVResult(data, options, planned, found, guess_scores(data, planned))
