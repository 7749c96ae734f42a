"""Paths that users name, and files that others may have written."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from legs.io.messages import FileError


def expand_user(path: str | Path) -> Path:
    """A path with ``~`` and ``~user`` replaced by the home folder.

    >>> expand_user("~nosuchuser/run")
    Traceback (most recent call last):
    ...
    legs.io.messages.FileError: ~nosuchuser/run: there is no user 'nosuchuser' here
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        user = Path(path).parts[0][1:]
        reason = f"there is no user {user!r} here" if user else "the home folder is not known"
        raise FileError(f"{path}: {reason}") from error


def read_file(path: Path, largest: int | None = None) -> bytes:
    """The bytes of a regular file of at most ``largest`` bytes.

    Folders of models and runs are shared, and what has the name of a file there may be a pipe that
    never ends, or a link to a device.

    >>> read_file(Path("/dev/null"))
    Traceback (most recent call last):
    ...
    legs.io.messages.FileError: /dev/null is not a file
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path} is not a file")
    if largest is not None and status.st_size > largest:
        raise FileError(f"{path} has {status.st_size:,} bytes; more than {largest:,} are not read")
    try:
        return path.read_bytes()
    except MemoryError:
        raise FileError(f"{path} has {status.st_size:,} bytes, more than memory holds") from None


def parse_json(content: bytes | str) -> Any:
    """The value of a JSON text; any fault in it is a ``ValueError``.

    >>> parse_json(b"[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def has_keys(path: Path, keys: Iterable[str]) -> bool:
    """Whether a file is a JSON object with these keys, and so may be one of ours."""
    try:
        value = parse_json(read_file(path))
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and set(keys) <= set(value)


def check_outputs(outputs: Iterable[str | Path], inputs: Iterable[str | Path]) -> None:
    """Refuses to write where something is read, also through links.

    No input may lie in a folder that is written, and no existing file in a folder that is read may
    be written. Names of data sets, which are not paths, may be among the inputs.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "some.csv")
    >>> _ = file.write_text("smiles")
    >>> check_outputs([file.with_name("other.csv")], [file, "MUTAG"])
    >>> check_outputs([file], [file])
    Traceback (most recent call last):
    ...
    legs.io.messages.FileError: ...some.csv would replace ...some.csv, ...
    """

    def resolve(path: str | Path) -> Path:
        return Path(os.path.realpath(os.path.expanduser(path)))

    sources = {name: resolve(name) for name in inputs if os.path.exists(os.path.expanduser(name))}
    for output in outputs:
        written = resolve(output)
        for name, path in sources.items():
            if (
                written == path
                or (written.exists() and written.samefile(path))
                or (written.is_dir() and path.is_relative_to(written))
                or (written.is_file() and path.is_dir() and written.is_relative_to(path))
            ):
                raise FileError(
                    f"{output} would replace {name}, which belongs to the input; choose another "
                    "output"
                )
