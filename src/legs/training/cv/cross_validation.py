"""Cross-validation by the paper's protocol."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from legs.data.dataset import GraphDataset
from legs.data.splits import GroupBy, Split, save_splits
from legs.data.validate import check_values
from legs.engine import Engine
from legs.io import one_writer
from legs.training.cv.models import Measure, Shared, Strategy
from legs.training.cv.progress import CVProgress
from legs.training.cv.protocol import CVOptions, check_grid, plan_splits
from legs.training.cv.results import CVResult, MethodResult, baseline_scores, score_method
from legs.training.cv.store import Store, is_store
from legs.training.cv.work import Work
from legs.training.fit import SplitKind, fingerprint, fingerprint_split

__all__ = ["CVOptions", "CVProgress", "CVResult", "MethodResult", "Progress", "cross_validate"]

Progress = Callable[[CVProgress], None]


def cross_validate(
    data: GraphDataset,
    methods: list[str],
    options: CVOptions | None = None,
    *,
    splits: list[Split] | SplitKind | None = None,
    group_by: GroupBy = "auto",
    model_options: dict[str, Any] | None = None,
    directory: str | Path | None = None,
    device: str = "cpu",
    strategy: Strategy | Literal["auto"] = "auto",
    workers: int | None = None,
    chunk: int = 90,
    keep_features: bool = False,
    measures: Mapping[str, Measure] | None = None,
    progress: Progress = lambda facts: None,
    engine: Engine | None = None,
    way: str | None = None,
) -> CVResult:
    """Cross-validates methods on the same partitions.

    Args:
        data: with targets.
        methods: names, as :func:`legs.training.methods` lists them.
        options: the protocol (default: the paper's).
        splits: a user's own, one per test set; or ``"random"`` (default) or ``"scaffold"``:
            molecules with the same ring system stay together.
        group_by: which graphs belong in one part of a split, see
            :func:`legs.data.splits.find_groups` (default: duplicates, unless the data set was
            loaded by name). A user's own splits are checked, with a warning.
        model_options: options for every network.
        directory: where to keep results. A run that was killed resumes there. A folder that holds
            other files is refused.
        device: where to train (default ``"cpu"``).
        strategy: ``"stacked"`` trains models of one architecture at once, ``"sequential"`` one
            after another, ``"auto"`` (default) what is faster in a trial.
        workers: processes for sequential training on the CPU (default: one per core).
        chunk: models trained at once at most.
        keep_features: whether results hold the graph features of every network (default: no).
        measures: functions of every trained network, its inputs and all targets, by name, whose
            results are kept (default: none).
        progress: called now and then with :class:`~legs.training.cv.progress.CVProgress`.
        engine: whose workers train, such as those of a cluster (default: this process, one method
            after another).
        way: deprecated name of ``strategy``, with ``"single"`` for ``"sequential"``.
    """
    if way is not None:
        warnings.warn("way= is now strategy=", DeprecationWarning, stacklevel=2)
        strategy = {"single": "sequential"}.get(way, way)  # type: ignore[assignment]
    if strategy not in ("auto", "stacked", "sequential"):
        raise ValueError(f"strategy is 'auto', 'stacked' or 'sequential'; got {strategy!r}")
    options = options or CVOptions()
    methods = list(dict.fromkeys(methods))
    check_grid(methods, options.grid)
    check_values(data)
    planned = plan_splits(data, options, splits, group_by)
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
    with nullcontext() if folder is None else one_writer(folder, is_store):
        store = Store(folder, settings)
        if folder is not None and not (folder / "splits.json").exists():
            save_splits(folder / "splits.json", flat)
        processes = workers or os.cpu_count() or 1
        shared = Shared(data, options.training, device, keep_features, measures or {}, processes)
        plan = (methods, planned, options, model_options or {})
        work = Work(*plan, store, shared, strategy, chunk, engine, progress)
        work.run()
        scored = [score_method(data, planned, name, work.results(name)) for name in methods]
    return CVResult(data, options, planned, scored, baseline_scores(data, planned), device)
