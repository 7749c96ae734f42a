"""A run on disk: its directory, one writer at a time, and what is checked before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.splits import Split, check_splits, load_splits, scaffold_split
from legs.files import one_writer, writing
from legs.models import ModelError, available, create
from legs.models.bounds import check_sizes
from legs.models.catalogue import nearest
from legs.models.saving import DESCRIPTION
from legs.training.methods import ENSEMBLES, HEAD_OPTIONS, check_method

CHECKPOINT = "checkpoint.bin"
BAD_ROWS = "bad_rows.csv"


@contextmanager
def run_directory(path: str | Path) -> Iterator[Path]:
    """The directory of a run, made if need be, with no other writer in it.

    What a run left that ended before its first checkpoint is cleared away, so that it does not
    hold up another with other settings. If nothing was written by the end, because of an error, a
    new directory is removed again.

    Args:
        path: of the directory.
    """
    with one_writer(Path(path).expanduser()) as folder, writing(folder):
        if not any(folder.glob(f"*{CHECKPOINT}")) and not (folder / "model").exists():
            for name in ("settings.json", "metrics.jsonl", "scales.jsonl"):
                (folder / name).unlink(missing_ok=True)
        yield folder


def find_model(path: str | Path) -> Path:
    """The model's directory: ``path`` itself, or ``model`` in the directory of a run."""
    folder = Path(path).expanduser()
    for place in (folder, folder / "model"):
        if (place / DESCRIPTION).is_file():
            return place
    if not folder.exists():
        raise ModelError(f"{folder}: no such run or model directory")
    if any(folder.glob(f"*{CHECKPOINT}")):
        raise ModelError(
            f"{folder} holds a run that has not ended; run the same legs train command again"
        )
    raise ModelError(f"{folder} holds no model: {DESCRIPTION} is missing")


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
        try:
            with torch.device("meta"):  # no memory for weights that nobody needs yet
                create(model, 2, 2, **options)
        except (TypeError, RuntimeError, AttributeError) as error:
            told = ", ".join(f"{name}={value!r}" for name, value in options.items())
            raise ValueError(f"{model} cannot be built with {told}: {error}") from error
        return
    known = HEAD_OPTIONS if model in ENSEMBLES else []
    for name in options:
        if name not in known:
            told = nearest(name, known) if known else ""
            raise ValueError(f"{model} has no option {name!r}{told}")


def choose_split(data: GraphDataset, how: str, seed: int = 0) -> Split:
    """Which graphs train, validate and test.

    Args:
        data: the data set.
        how: ``"random"`` (80/10/10, stratified by class), ``"scaffold"`` (molecules that share a
            ring system stay together), or the path of a file that ``save_splits`` wrote.
        seed: of the random split.
    """
    from legs.training.fit import default_split

    if how == "random":
        split = default_split(data, seed)
    elif how == "scaffold":
        if not data.smiles:
            raise DataError(f"{data.name}: a scaffold split needs molecules")
        split = scaffold_split(data.smiles)
    elif Path(how).suffix.lower() != ".json":
        raise DataError(f"a split is random, scaffold or a .json file, not {how!r}")
    else:
        splits = load_splits(how, graphs=len(data))
        if len(splits) > 1:
            raise DataError(f"{how} holds {len(splits)} splits; a run takes one")
        split = splits[0]
    check_splits([split], len(data))
    return split


def choose_device(name: str) -> str:
    """``"cpu"``, ``"cuda"``, or for ``"auto"`` the faster one that is there."""
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise ValueError("PyTorch finds no CUDA device here; use --device cpu")
    return ("cuda" if there else "cpu") if name == "auto" else name
