"""Prepared data sets on disk: tensors as safetensors, everything else as JSON, in one step."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
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
from legs.data.validate import check_dataset
from legs.io import parse_json, source_digest, sync_folder, writing

FORMAT = 1  # of the files written here; older ones are rebuilt
_TENSORS = ("x", "ptr", "rowptr", "col", "edge_weight", "y")
_WORDS = ("feature_names", "class_names", "target_names", "ids", "smiles", "groups")
_DATA, _REST = "tensors.safetensors", "dataset.json"
LARGEST = 20 << 30  # bytes of all prepared sets
_ENTRY = re.compile(r".*-[0-9a-f]{20}-[0-9a-f]{12}")
_ABANDONED = 3600.0  # seconds after which what a killed process left is removed


def save_dataset(directory: str | Path, dataset: GraphDataset) -> Path:
    """Writes a data set into a new folder, in one step; returns the folder.

    The files are written beside it under another name first, so that the folder is complete
    whenever it exists. An older one of that name is replaced.

    Args:
        directory: to be made; its parents are made as well.
        dataset: of which ``info`` must be plain (numbers, text, lists, dictionaries); arrays in it
            become lists.

    Raises:
        DataError: ``info`` holds something else.

    >>> import tempfile, torch
    >>> data = GraphDataset(
    ...     torch.ones(1, 1),
    ...     torch.tensor([0, 1]),
    ...     torch.tensor([0, 0]),
    ...     torch.empty(0, dtype=torch.int32),
    ...     name="a dot",
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_dataset(save_dataset(folder + "/dot", data)).name
    'a dot'
    """
    directory = Path(directory)
    tensors = {name: getattr(dataset, name) for name in _TENSORS}
    data = save({name: t.contiguous() for name, t in tensors.items() if t is not None})
    rest = {
        "format": FORMAT,
        "name": dataset.name,
        "task": dataset.task,
        **{name: list(getattr(dataset, name)) for name in _WORDS},
        "info": plain(dataset.info),
    }
    text = json.dumps({**rest, "sha256": _digests(data, rest)})
    with writing(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        _drop_abandoned(directory)
        temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        with writing(directory):
            _write(temporary / _DATA, data)
            _write(temporary / _REST, text.encode())
            temporary.chmod(0o755)  # mkdtemp makes folders that only their owner can read
            sync_folder(temporary)
            _replace(temporary, directory)
            sync_folder(directory.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return directory


def load_dataset(directory: str | Path) -> GraphDataset:
    """Reads what :func:`save_dataset` wrote.

    Raises:
        DataError: the folder is missing, incomplete, damaged or of another version.
    """
    directory = Path(directory)
    try:
        rest = parse_json((directory / _REST).read_bytes())
        if rest["format"] != FORMAT:
            raise DataError(f"{directory}: written by another version of torch-legs")
        data = (directory / _DATA).read_bytes()
        # Checked in memory: what is used is what was checked.
        if rest.pop("sha256") != _digests(data, rest):
            raise DataError(f"{directory}: the files are damaged (their checksums differ)")
        fields: dict[str, Any] = {**load(data), **{name: tuple(rest[name]) for name in _WORDS}}
        words = {"task": rest["task"], "name": rest["name"], "info": rest["info"]}
        return check_dataset(GraphDataset(**fields, **words))
    except DataError as error:
        message = str(error)
        message = message if str(directory) in message else f"{directory}: {message}"
        raise DataError(message) from error
    except Exception as error:  # a file may hold anything
        raise DataError(f"{directory}: not a data set, or a damaged one ({error})") from error


def entry(name: str, digests: Sequence[str], choices: Mapping[str, Any]) -> str:
    """The name of a cache entry: equal for equal sources, choices and code.

    What was made from the same sources and choices by other code differs in the last part only.

    Args:
        name: of the set, to be recognised by people.
        digests: of the source files.
        choices: everything else the result depends on, plain values.
    """
    key = json.dumps([FORMAT, list(digests), choices], sort_keys=True, default=str)
    readable = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:60]
    return f"{readable}-{hashlib.sha256(key.encode()).hexdigest()[:20]}-{_code()[:12]}"


def find(directory: Path) -> GraphDataset | None:
    """A prepared set of the cache, or ``None``; a damaged one is removed."""
    if not directory.exists():
        return None
    try:
        data = load_dataset(directory)
    except DataError:
        shutil.rmtree(directory, ignore_errors=True)
        return None
    with suppress(OSError):
        os.utime(directory)  # the time of the last use, for evict
    return data


def evict(directory: Path) -> None:
    """Makes room beside a new entry: outdated ones, then those not used for longest.

    Entries that other code made of the same sources and choices are outdated. The others go from
    the least recently used one, while all together are larger than :data:`LARGEST`.
    """
    outdated = directory.name.rpartition("-")[0] + "-"
    entries = {}
    for entry in directory.parent.iterdir():
        with suppress(OSError):  # another process may have removed it
            if entry == directory or not _ENTRY.fullmatch(entry.name):
                continue
            if entry.name.startswith(outdated):
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entries[entry] = (entry.stat().st_mtime, _size(entry))
    total = _size(directory) + sum(size for _, size in entries.values())
    for entry in sorted(entries, key=lambda e: entries[e]):
        if total <= LARGEST:
            return
        total -= entries[entry][1]
        shutil.rmtree(entry, ignore_errors=True)


def _size(entry: Path) -> int:
    return sum(file.stat().st_size for file in entry.iterdir())


def digest(path: Path) -> str:
    """A digest of a file's bytes, or of the names and bytes of all files in a folder."""
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file())
        parts = [f"{p.relative_to(path).as_posix()}\0{digest(p)}" for p in inside]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    with path.open("rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()}:{path.stat().st_size}"


def plain(value: Any) -> Any:
    """A value as JSON keeps it: arrays, tuples and sets become lists, keys and paths text.

    >>> plain({"groups": np.array([1, 2]), "path": Path("a/b")})
    {'groups': [1, 2], 'path': 'a/b'}
    """
    if isinstance(value, str | bool | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(inner) for inner in value]
    raise DataError(f"info holds a {type(value).__name__}, which cannot be written to a file")


def _digests(data: bytes, rest: Mapping[str, Any]) -> list[str]:
    text = json.dumps(rest, sort_keys=True).encode()
    return [hashlib.sha256(part).hexdigest() for part in (data, text)]


@cache
def _code() -> str:
    """A digest of this package's source: a changed reader must not find what an older one read."""
    return source_digest(Path(__file__).parents[1])


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())  # a rename must not survive a crash that its contents do not


def _drop_abandoned(directory: Path) -> None:
    """Removes what processes left that were killed while they wrote the same."""
    for old in directory.parent.glob(f".{glob.escape(directory.name)}.*"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > _ABANDONED:
                shutil.rmtree(old, ignore_errors=True)


def _replace(temporary: Path, directory: Path) -> None:
    # A folder can be renamed onto an empty one only: the old one steps aside first. Others may be
    # doing the same, so what failed is simply tried again.
    for _ in range(100):
        try:
            return os.rename(temporary, directory)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES):
                raise
        with (
            tempfile.TemporaryDirectory(
                prefix=f".{directory.name}.", dir=directory.parent, ignore_cleanup_errors=True
            ) as aside,
            suppress(FileNotFoundError),
        ):
            os.rename(directory, Path(aside) / "old")
    raise DataError(f"{directory}: cannot be replaced; other processes keep writing it")
