"""Checksums inside JSON files, and of the files beside them."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from legs.io.messages import BoundedError

KEY, FILES = "sha256", "files"
WEIGHTS = "weights"  # in results.json: the digest of the model's weights


class FileError(BoundedError):
    """A file or folder of a run that cannot be used; the message says why."""


class FileWarning(UserWarning):
    """A file that is used although it could not be verified, or is made again as it is damaged."""


def parse_json(content: bytes | str) -> Any:
    """What a JSON text holds; whatever is wrong with it is a ``ValueError``.

    >>> parse_json(b"[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def digest_of(known: Mapping[str, Any]) -> str:
    """A digest of JSON values, whatever the order of names and the white space in the file."""
    text = json.dumps(known, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def with_digest(known: Mapping[str, Any]) -> dict[str, Any]:
    """The same values, and their digest as ``sha256``.

    >>> check_digest(with_digest({"a": 1}), Path("a.json"))
    {'a': 1}
    """
    # As a reader finds them: tuples are lists there, and names are text.
    plain = json.loads(json.dumps(known))
    return {**plain, KEY: digest_of(plain)}


def check_digest(known: Any, path: Path, advice: str = "delete it to start anew") -> dict[str, Any]:
    """What :func:`with_digest` was given.

    Args:
        known: as read from ``path``. Files of older versions have no digest, and pass.
        path: for the message.
        advice: the end of the message.

    Raises:
        FileError: not what was written.
    """
    if not isinstance(known, dict):
        raise FileError(f"{path} is damaged: it holds no table; {advice}")
    rest = {name: value for name, value in known.items() if name != KEY}
    if KEY in known and known[KEY] != digest_of(rest):
        raise FileError(f"{path} is damaged: its checksum is wrong; {advice}")
    return rest


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Digests of those of the files that are there, to be kept in a JSON file beside them."""
    return {name: file_digest(folder / name) for name in names if (folder / name).is_file()}


def source_digest(*folders: Path) -> str:
    """A digest of all Python files in folders and below: changes with any edit of the code."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            name = file.relative_to(folder).as_posix()
            digest.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\0".encode())
    return digest.hexdigest()


def check_files(folder: Path, expected: Any) -> None:
    """Raises :class:`FileError` for the first file that is not as :func:`file_digests` found it.

    Args:
        folder: of the files.
        expected: digests by name; files that are gone are not missed.
    """
    if not isinstance(expected, Mapping):
        raise FileError(f"{folder} is damaged: its list of checksums is none")
    for name, found in file_digests(folder, [str(name) for name in expected]).items():
        if found != expected[name]:
            raise FileError(f"{folder / name} is damaged: its checksum is wrong")


def check_weights(path: Path, results: Mapping[str, Any], digest: Any) -> None:
    """Verifies that a model belongs to a run.

    Args:
        path: of the run's ``results.json``; the model is in ``model`` beside it.
        results: what it holds. Those of version 0.1.0 do not name their model: a warning.
        digest: of the model's weights.

    Raises:
        FileError: the run had other weights.
    """
    model = path.parent / "model"
    if WEIGHTS not in results:
        warnings.warn(
            f"{path} was written by an earlier version and does not say which model it belongs "
            f"to; {model} is taken for it",
            FileWarning,
            stacklevel=1,
        )
    elif results[WEIGHTS] != digest:
        raise FileError(
            f"{model} is not the model of this run, or damaged: {path} names other weights"
        )
