"""Splits on disk: a JSON list of ``{"train": [...], "validation": [...], "test": [...]}``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from legs.data.errors import DataError
from legs.data.folds import PARTS, Split
from legs.files import digest_of, parse_json, write_atomically

KEY = "sha256"


def save_splits(path: str | PathLike[str], splits: Sequence[Split]) -> None:
    """Writes splits, each with its checksum; a file that is there is replaced in one step.

    >>> import tempfile
    >>> from legs.data.splits import random_split
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_splits(f"{folder}/splits.json", [random_split(10)])
    ...     load_splits(f"{folder}/splits.json", graphs=10)[0].test
    array([1])
    """
    check_splits(splits)
    rows = [{part: getattr(split, part).tolist() for part in PARTS} for split in splits]
    sealed = [{**row, KEY: digest_of(row)} for row in rows]
    write_atomically(Path(path), (json.dumps(sealed) + "\n").encode())


def load_splits(path: str | PathLike[str], graphs: int | None = None) -> list[Split]:
    """Reads splits and checks them.

    Args:
        path: the file.
        graphs: number of graphs of the data set, where known.

    Raises:
        DataError: naming the split and what is wrong with it.
    """
    try:
        rows = parse_json(Path(path).read_bytes())
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{path}: not a JSON file ({error})") from error
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{path}: not a list of splits")
    splits = [_parse(row, f"{path}: split {i}") for i, row in enumerate(rows)]
    check_splits(splits, graphs, where=f"{path}: ")
    return splits


def check_splits(splits: Sequence[Split], graphs: int | None = None, where: str = "") -> None:
    """Every part of every split has graphs, none twice, none in two parts, none out of range.

    >>> check_splits([Split(np.array([0, 1]), np.array([2]), np.array([1]))])
    Traceback (most recent call last):
    ...
    legs.data.errors.DataError: split 0: graph 1 is in train and in test
    """
    if not splits:
        raise DataError(f"{where}there are no splits")
    for i, split in enumerate(splits):
        name = f"{where}split {i}"
        for part, chosen in zip(PARTS, split, strict=True):
            if chosen.size == 0:
                raise DataError(f"{name}: {part} is empty")
            outside = chosen[(chosen < 0) | (chosen >= (np.inf if graphs is None else graphs))]
            if outside.size:
                there = "" if graphs is None else f"; there are {graphs} graphs"
                raise DataError(f"{name}: {part} names graph {outside[0]}{there}")
            values, count = np.unique(chosen, return_counts=True)
            if (count > 1).any():
                raise DataError(f"{name}: {part} names graph {values[count > 1][0]} twice")
        for a, b in ((0, 1), (0, 2), (1, 2)):
            shared = np.intersect1d(split[a], split[b])
            if shared.size:
                raise DataError(f"{name}: graph {shared[0]} is in {PARTS[a]} and in {PARTS[b]}")


def _parse(row: Any, where: str) -> Split:
    if not isinstance(row, dict) or {*row} - {KEY} != set(PARTS):
        raise DataError(f"{where} is not an object with {', '.join(PARTS)}")
    for part in PARTS:
        good = isinstance(row[part], list) and all(type(i) is int for i in row[part])
        if not good or any(abs(i) >= 2**63 for i in row[part]):
            raise DataError(f"{where}: {part} is not a list of graph numbers")
    # People write splits by hand as well, without a checksum.
    if KEY in row and row[KEY] != digest_of({part: row[part] for part in PARTS}):
        raise DataError(
            f"{where} is damaged: its checksum is wrong; if you changed it, remove {KEY}"
        )
    return Split(*(np.array(row[part], dtype=np.int64) for part in PARTS))
