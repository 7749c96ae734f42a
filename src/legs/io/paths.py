"""Outputs that would replace what is read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from legs.io.digests import FileError


def check_outputs(outputs: Iterable[str | Path], inputs: Iterable[str | Path]) -> None:
    """Refuses to write where something is read, also through links.

    Args:
        outputs: files and folders that will be written. Nothing is read from within a folder that
            is written.
        inputs: files and folders that are read; names of data sets, which are no paths, may be
            among them. No file within a folder that is read is written.

    Raises:
        FileError: names both.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "some.csv")
    >>> _ = file.write_text("smiles")
    >>> check_outputs([file.with_name("other.csv")], [file, "MUTAG"])
    >>> check_outputs([file], [file])
    Traceback (most recent call last):
    ...
    legs.io.digests.FileError: ...some.csv would replace ...some.csv, ...
    """
    read = [(name, _resolve(name)) for name in inputs if os.path.exists(os.path.expanduser(name))]
    for output in outputs:
        written = _resolve(output)
        for name, path in read:
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


def _resolve(path: str | Path) -> Path:
    return Path(os.path.realpath(os.path.expanduser(path)))
