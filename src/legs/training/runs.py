"""A run on disk: its directory, one writer at a time, and what is checked before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, get_args

import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, is_bad_rows
from legs.data.grouping import GroupBy, find_groups, warn_about_leaks
from legs.data.splits import Split, check_splits, load_splits
from legs.io import (
    FileError,
    check_digest,
    check_weights,
    contents,
    expand_user,
    has_keys,
    one_writer,
    parse_json,
    read_file,
    writing,
)
from legs.models import ModelError, available, create
from legs.models.bounds import check_sizes
from legs.models.catalogue import cannot_build, nearest
from legs.models.saving import DESCRIPTION, LARGEST_DESCRIPTION, WEIGHTS
from legs.nn import FCN
from legs.training.methods import ENSEMBLES, HEAD_OPTIONS, check_method
from legs.training.results import FILES, RESULTS
from legs.training.sealed import read_sealed

CHECKPOINT = "checkpoint.bin"
BAD_ROWS = "bad_rows.csv"
SETTINGS = "settings.json"
# What the settings of a run name; see legs.training.fit.
SETTINGS_KEYS = ("model", "model_options", "training", "data", "split")


@contextmanager
def run_directory(path: str | Path) -> Iterator[Path]:
    """The directory of a run, made if need be, with no other writer in it.

    If nothing was written by the end, because of an error, a new directory is removed again.

    Args:
        path: of the directory.

    Raises:
        FileError: there is another writer, or the directory holds other files than those of a run.
    """
    with one_writer(expand_user(path), is_run) as folder, writing(folder):
        yield folder


def is_run(folder: Path) -> bool:
    """Whether what a folder holds is a run, or rows that a run could not use."""
    return (
        has_keys(folder / SETTINGS, SETTINGS_KEYS)
        or has_keys(folder / "model" / DESCRIPTION, ("format", "sha256"))
        or any(_is_checkpoint(path) for path in folder.glob(f"*{CHECKPOINT}"))
        or all(path.name == BAD_ROWS and is_bad_rows(path) for path in contents(folder))
    )


def _is_checkpoint(path: Path) -> bool:
    try:
        read_sealed(path, "state")
    except (OSError, ModelError):
        return False
    return True


def clear_failed_start(folder: Path) -> None:
    """Removes what a run left that ended before its first checkpoint.

    It would hold up another run with other settings, and has nothing to resume from.

    Args:
        folder: locked by the caller.
    """
    if any(folder.glob(f"*{CHECKPOINT}")) or (folder / "model").exists():
        return
    if has_keys(folder / SETTINGS, SETTINGS_KEYS):
        for name in ("metrics.jsonl", "scales.jsonl", SETTINGS):
            (folder / name).unlink(missing_ok=True)


def find_model(path: str | Path) -> Path:
    """The model's directory: ``path`` itself, or ``model`` in the directory of a run."""
    folder = expand_user(path)
    for place in (folder, folder / "model"):
        if (place / DESCRIPTION).is_file():
            if place != folder:
                _check_owner(folder)
            return place
    if not folder.exists():
        raise ModelError(f"{folder}: no such run or model directory")
    if any(folder.glob(f"*{CHECKPOINT}")):
        raise ModelError(
            f"{folder} holds a run that has not ended; run the same legs train command again"
        )
    raise ModelError(f"{folder} holds no model: {DESCRIPTION} is missing")


def _check_owner(folder: Path) -> None:
    """Raises :class:`ModelError` if the model in the directory of a run is another run's."""
    file = folder / RESULTS
    if not file.is_file():
        return
    advice = f"use {folder / 'model'} for the model alone"
    try:
        results = parse_json(read_file(file))
    except ValueError as error:
        raise ModelError(f"{file} is damaged: {error}; {advice}") from error
    try:
        description = parse_json(read_file(folder / "model" / DESCRIPTION, LARGEST_DESCRIPTION))
        check_weights(file, check_digest(results, file, advice), description["sha256"][WEIGHTS])
    except FileError as error:
        raise ModelError(str(error)) from error
    except (ValueError, KeyError, TypeError):
        return  # of the description, whose reader says so


def run_files(path: str | Path) -> list[Path]:
    """The files of a model, and of the run that it belongs to."""
    model = find_model(path)
    names = (*FILES, BAD_ROWS) if model.name == "model" else ()
    return [*sorted(model.iterdir()), *(model.parent / name for name in names)]


def check_options(model: str, options: dict[str, Any]) -> None:
    """A clear error for a method that does not exist, or options that it cannot be built with.

    Args:
        model: one of :func:`legs.training.methods`.
        options: of the network.

    >>> check_options("gcn", {"hiden_channels": 3})
    Traceback (most recent call last):
    ...
    ValueError: gcn has no option 'hiden_channels'; did you mean 'hidden_channels'?
    """
    check_method(model)
    check_sizes(options)
    if model in available():
        if options.get("level", "graph") != "graph" or options.get("aggr", "") is None:
            raise ValueError(f"{model} would predict for nodes, but there is a target for graphs")
        with torch.device("meta"):  # no memory for weights that nobody needs yet
            create(model, 2, 2, **options)
        return
    known = HEAD_OPTIONS if model in ENSEMBLES else []
    for name in options:
        if name not in known:
            told = nearest(name, known) if known else ""
            raise ValueError(f"{model} has no option {name!r}{told}")
    try:
        with torch.device("meta"):
            FCN(2, 2, **options)  # the head of an ensemble
    except (TypeError, RuntimeError) as error:
        raise ValueError(cannot_build(model, options, error)) from error


def choose_split(data: GraphDataset, how: str, seed: int = 0, group_by: GroupBy = "auto") -> Split:
    """Which graphs train, validate and test.

    Args:
        data: the data set.
        how: ``"random"`` (80/10/10, stratified by class), ``"scaffold"`` (molecules that share a
            ring system stay together), or the path of a file that ``save_splits`` wrote.
        seed: of the random or scaffold split.
        group_by: which graphs stay together, see :func:`legs.data.grouping.find_groups`. A split
            from a file is checked, with a warning.
    """
    from legs.training.fit import SplitKind, default_split

    groups = find_groups(data, group_by)
    if how in get_args(SplitKind):
        split = default_split(data, seed, kind=cast(SplitKind, how), group_by=groups)
    elif Path(how).suffix.lower() != ".json":
        raise DataError(f"a split is random, scaffold or a .json file, not {how!r}")
    else:
        splits = load_splits(how, graphs=len(data))
        if len(splits) > 1:
            raise DataError(f"{how} holds {len(splits)} splits; a run takes one")
        split = splits[0]
    check_splits([split], len(data))
    warn_about_leaks([split], groups)
    return split


def choose_device(name: str) -> str:
    """``"cpu"``, ``"cuda"``, or for ``"auto"`` the faster one that is there."""
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise ValueError("PyTorch finds no CUDA device here; use device='cpu'")
    return ("cuda" if there else "cpu") if name == "auto" else name
