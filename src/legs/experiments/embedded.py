"""Cross-validation that keeps the graph features of every network."""

from __future__ import annotations

from pathlib import Path

from legs.data.dataset import GraphDataset
from legs.training import CVOptions, CVResult
from legs.training.cross_validation import Progress
from legs.training.cv_plan import plan_splits
from legs.training.cv_runner import Runner, paces
from legs.training.cv_scores import guess_scores, score_method
from legs.training.cv_store import Store
from legs.training.cv_tracker import Tracker
from legs.training.fit import fingerprint, fingerprint_split
from legs.training.members import Way


def cross_validate_embedded(
    data: GraphDataset,
    methods: list[str],
    options: CVOptions,
    *,
    directory: Path,
    device: str,
    way: Way,
    workers: int,
    chunk: int,
    progress: Progress,
) -> CVResult:
    """Does what :func:`legs.training.cross_validate` does; results also have ``features``.

    Args:
        data: with targets.
        methods: networks.
        options: the protocol.
        directory: where to keep results.
        device: where to train.
        way: how to train.
        workers: processes on the CPU.
        chunk: models at once at most.
        progress: called now and then.
    """
    planned = plan_splits(data, options)
    settings = {
        "data": fingerprint(data),
        "options": options.to_json(),
        "splits": [fingerprint_split(split) for group in planned for split in group],
        "features": True,
    }
    training = options.training
    tracker = Tracker(
        paces(methods, planned, options),
        training.max_epochs,
        training.validate_every,
        len(options.grid),
        progress,
    )
    runner = Runner(
        data,
        planned,
        options,
        {},
        Store(directory, settings),
        tracker,
        device,
        way,
        workers,
        chunk,
        features=True,
    )
    found = [
        score_method(data, planned, method, runner.train(number))
        for number, method in enumerate(methods)
    ]
    return CVResult(data, options, planned, found, guess_scores(data, planned))
