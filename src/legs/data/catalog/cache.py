"""Prepared data sets on disk: one safetensors file each, with everything else as its metadata."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load, save
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.validate import NAMES, check_dataset
from legs.io import file_digest, parse_json, source_digest, write_atomically, writing

FORMAT = 2  # of the files written here; others are rebuilt
SUFFIX = ".safetensors"
LARGEST = 20 << 30  # bytes of all prepared sets
_ENTRY = re.compile(rf".*-[0-9a-f]{{20}}-[0-9a-f]{{12}}{re.escape(SUFFIX)}")


def save_dataset(path: str | Path, dataset: GraphDataset) -> Path:
    """Writes a data set into one file, atomically; returns its path.

    Args:
        path: of the file, by convention ``*.safetensors``; its folder is created, an older file
            is replaced.
        dataset: of which ``info`` must be plain (numbers, text, lists, dictionaries); arrays in it
            become lists.

    Raises:
        DataError: ``info`` holds something else.

    >>> import tempfile, torch
    >>> x, ptr, edges = torch.ones(1, 1), torch.tensor([0, 1]), torch.empty(2, 0).long()
    >>> data = GraphDataset.from_edges(x, ptr, edges, name="a dot")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_dataset(save_dataset(folder + "/dot.safetensors", data)).name
    'a dot'
    """
    path, fields = Path(path), vars(dataset)
    tensors = {name: t.contiguous() for name, t in fields.items() if isinstance(t, Tensor)}
    rest = {name: value for name, value in fields.items() if name not in tensors}
    text = json.dumps({"format": FORMAT, **plain(rest)})
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, save(tensors, {"dataset": _digest(tensors, text) + text}))
    return path


def load_dataset(path: str | Path) -> GraphDataset:
    """Reads what :func:`save_dataset` wrote.

    Raises:
        DataError: the file is missing, incomplete, damaged or of another version.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        header = content[8 : 8 + int.from_bytes(content[:8], "little")]
        metadata, tensors = parse_json(header)["__metadata__"]["dataset"], load(content)
        digest, text = metadata[:64], metadata[64:]
        # Checked in memory: what is used is what was checked.
        if digest != _digest(tensors, text):
            raise DataError("it is damaged (its checksum differs)")
        rest = parse_json(text)
        if rest.pop("format") != FORMAT:
            raise DataError("written by another version of torch-legs; prepare it again")
        rest |= {name: tuple(rest.get(name, ())) for name in NAMES}
        return check_dataset(GraphDataset(**(rest | tensors)))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except Exception as error:  # a file may hold anything
        raise DataError(f"{path}: not a data set, or a damaged one ({error})") from error


def entry(name: str, digests: Sequence[str], choices: Mapping[str, Any]) -> str:
    """The file name of a cache entry: equal for equal sources, choices and code.

    Entries of the same sources and choices by other code differ in the last part only.
    """
    key = json.dumps([FORMAT, list(digests), choices], sort_keys=True, default=str)
    readable = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:60]
    return f"{readable}-{hashlib.sha256(key.encode()).hexdigest()[:20]}-{_code()[:12]}{SUFFIX}"


def find(path: Path) -> GraphDataset | None:
    """A prepared set of the cache, or ``None``; a damaged one is removed."""
    try:
        data = load_dataset(path)
    except DataError:
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        os.utime(path)  # the time of the last use, for evict
    return data


def evict(path: Path) -> None:
    """Makes space beside a new entry: outdated ones go, then the least recently used ones.

    Entries that other code made of the same sources and choices are outdated. The others go while
    all together are larger than :data:`LARGEST`.
    """
    same_source, total = path.name.rpartition("-")[0] + "-", path.stat().st_size
    with suppress(OSError):  # an entry may be gone, by another process
        others = [p for p in path.parent.iterdir() if p != path and _ENTRY.fullmatch(p.name)]
        for other in sorted(others, key=lambda entry: -entry.stat().st_mtime):
            total += other.stat().st_size
            if total > LARGEST or other.name.startswith(same_source):
                total -= other.stat().st_size
                other.unlink()


def digest(path: Path) -> str:
    """A digest of a file's bytes, or of the names and bytes of all files in a folder."""
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file())
        parts = [f"{p.relative_to(path).as_posix()}\0{digest(p)}" for p in inside]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{file_digest(path)}:{path.stat().st_size}"


def plain(value: Any) -> Any:
    """A value as JSON keeps it: arrays, tuples and sets become lists, keys and paths text.

    >>> plain({"groups": np.array([1, 2]), "path": Path("a/b")})
    {'groups': [1, 2], 'path': 'a/b'}
    """
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return list(value)
    raise DataError(f"info holds a {type(value).__name__}, which cannot be written to a file")


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        array: Any = tensor.cpu().numpy()
        digest.update(f"\0{name}\0{array.dtype}\0{array.shape}\0".encode())
        digest.update(array)
    return digest.hexdigest()


@cache
def _code() -> str:
    """A digest of this package's source: a changed reader must not find what an older one read."""
    return source_digest(Path(__file__).parents[1])
