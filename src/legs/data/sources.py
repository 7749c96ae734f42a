"""Where data comes from: a user's folder, the cache, an installed package, a download."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from legs.data.errors import DataError

VARIABLE = "LEGS_DATA"


def data_dir() -> Path | None:
    """The folder the environment variable ``LEGS_DATA`` names, or ``None`` where it is not set.

    It is laid out as ``tu/NAME.zip``, ``qm9/qm9.parquet``, ``zinc/…``, ``ki/…``, ``structures/…``.
    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"{VARIABLE} is set to {named}, which is not a folder; correct or unset it")
    return folder


def cache_dir() -> Path:
    """The folder for downloads and prepared sets: ``$XDG_CACHE_HOME/torch-legs``, by default
    ``~/.cache/torch-legs``. It need not exist."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "torch-legs"


def find(relative: str) -> Path | None:
    """A file or folder of the data, in ``LEGS_DATA`` or else in the cache; ``None`` if in neither.

    Args:
        relative: a path below either, with forward slashes, such as ``"qm9/qm9.parquet"``.

    >>> find("tu/no-such-set.zip") is None
    True
    """
    _check(relative)
    for folder in (data_dir(), cache_dir()):
        if folder is not None and (path := folder / relative).exists():
            return path
    return None


def find_in_package(package: str, relative: str) -> Path | None:
    """A file inside an installed package, without importing it; ``None`` if it is not there.

    Args:
        package: its import name, such as ``"rdkit"``.
        relative: a path in its folder, with forward slashes, such as ``"Data/NCI/first_5K.smi"``.

    >>> find_in_package("legs", "data/sources.py").name
    'sources.py'
    >>> find_in_package("no_such_package", "data.csv") is None
    True
    """
    _check(relative)
    spec = find_spec(package) if "." not in package else None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder) / relative).exists():
            return path
    return None


def require(
    relative: str, *, url: str | None = None, sha256: str | None = None, hint: str = ""
) -> Path:
    """A file of the data: found as by :func:`find`, or else downloaded into the cache.

    Args:
        relative: as for :func:`find`.
        url: public address of the file; ``None`` where there is none.
        sha256: digest a download must have, in hexadecimal (default: the published one, see
            :mod:`legs.data.digests`).
        hint: what else can be done without the file (a stand-in, a package to install), a sentence
            for the error.

    Raises:
        DataError: not found, and not to be downloaded. Says what to do.
    """
    path = find(relative)
    if path is not None:
        return path
    target = cache_dir() / relative
    by_hand = f"put it at {target}, or set {VARIABLE} to a folder that holds {relative}"
    if url is None:
        raise DataError(" ".join([f"{relative} was not found: {by_hand}.", hint]).strip())
    from legs.data.digests import PUBLISHED
    from legs.data.download import download

    try:
        return download(url, target, sha256=sha256 or PUBLISHED.get(relative))
    except DataError as error:
        advice = f"To do without, download {url} elsewhere and {by_hand}."
        raise type(error)(" ".join([f"{relative}: {error}. {advice}", hint]).strip()) from error


def _check(relative: str) -> None:
    # Names of data sets come from users and end up in paths.
    parts = PurePosixPath(relative).parts
    unsafe = not parts or "\\" in relative or "\0" in relative or ":" in relative
    if unsafe or ".." in parts or relative.startswith(("/", "~")):
        raise DataError(f"{relative!r} is not a path inside the data folder")
