"""Checksums inside JSON files, and of the files beside them."""

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from legs.io.reading import FileError, FileWarning

KEY = "sha256"
WEIGHTS = "weights"  # in results.json: the digest of the model's weights


def digest_of(values: Mapping[str, Any]) -> str:
    """A digest of JSON values, whatever the order of keys and the white space in the file."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def with_digest(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values, and their digest as ``sha256``.

    >>> check_digest(with_digest({"a": 1}), Path("a.json"))
    {'a': 1}
    """
    # As a reader finds them: tuples are lists there, and keys are text.
    plain = json.loads(json.dumps(values))
    return {**plain, KEY: digest_of(plain)}


def check_digest(
    values: Any, path: Path, advice: str = "delete it to start again"
) -> dict[str, Any]:
    """The values that :func:`with_digest` got; raises :class:`FileError` where they changed.

    Files of older versions have no digest, and pass. ``advice`` ends the message.
    """
    if not isinstance(values, dict):
        raise FileError(f"{path} is damaged: it holds no table; {advice}")
    rest = {name: value for name, value in values.items() if name != KEY}
    if KEY in values and values[KEY] != digest_of(rest):
        raise FileError(f"{path} is damaged: its checksum is wrong; {advice}")
    return rest


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Digests by name of those files that exist, for a JSON file beside them."""
    # Names may be of a damaged file: os.path has no file for one that is too long, too.
    return {name: file_digest(folder / name) for name in names if os.path.isfile(folder / name)}


def source_digest(*folders: Path) -> str:
    """A digest of all Python files in folders and below: changes with any edit of the code."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{file.relative_to(folder).as_posix()}\0{file_digest(file)}\0".encode())
    return digest.hexdigest()


def check_files(folder: Path, expected: Any) -> None:
    """Raises :class:`FileError` for the first existing file with another digest than expected."""
    if not isinstance(expected, Mapping):
        raise FileError(f"{folder} is damaged: it has no list of checksums")
    for name, digest in file_digests(folder, map(str, expected)).items():
        if digest != expected[name]:
            raise FileError(f"{folder / name} is damaged: its checksum is wrong")


def check_weights(path: Path, results: Mapping[str, Any], digest: Any) -> None:
    """Verifies that ``results``, read from ``path``, name the weights with this digest."""
    model = path.parent / "model"
    if WEIGHTS not in results:
        message = "was written by an earlier version and does not say which model it belongs to"
        warnings.warn(f"{path} {message}; {model} is taken for it", FileWarning, stacklevel=1)
    elif results[WEIGHTS] != digest:
        wrong = "is not the model of this run, or damaged"
        raise FileError(f"{model} {wrong}: {path} names other weights")
