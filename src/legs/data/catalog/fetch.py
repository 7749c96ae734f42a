"""Files of data sets: the data folder, the cache, installed packages, downloads."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from legs.data.errors import DataError
from legs.io import check_archive, iter_member, lock_file, sync_folder, write_atomically

VARIABLE = "LEGS_DATA"


def data_dir() -> Path | None:
    """The folder the environment variable ``LEGS_DATA`` names, or ``None`` where it is not set.

    It is laid out as ``tu/NAME.zip``, ``qm9/qm9.parquet``, ``zinc/…``, ``ki/…``, ``structures/…``.
    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        return None
    folder = Path(os.path.expanduser(named))  # leaves the home of nobody as it is
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

    >>> find_in_package("legs", "data/dataset.py").name
    'dataset.py'
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
            :mod:`legs.data.catalog.specs`).
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
    from legs.data.catalog.fetch import download
    from legs.data.catalog.specs import PUBLISHED

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


LARGEST = 8 << 30  # bytes; no set is near it, and an endless answer must not fill the disk
_CHUNK = 1 << 18


class NotAtAddress(DataError):
    """The server answered, and has no such file."""


def download(
    url: str,
    path: Path,
    *,
    sha256: str | None = None,
    timeout: float = 30.0,
    largest: int = LARGEST,
) -> Path:
    """Downloads a file, with a progress bar on a terminal; returns ``path``.

    ``path`` appears in one step, after length, digest and, for a zip, the checksums of its members
    have been verified. Its digest is kept in ``NAME.sha256``; while that is there, only the same
    file is accepted.

    Args:
        url: address, http or https.
        path: of the file to write; its folder is made.
        sha256: digest it must have, in hexadecimal; ``None`` (default) where none is known but
            that of an earlier download.
        timeout: seconds to wait for the server.
        largest: bytes at which a download is given up.

    Raises:
        DataError: could not be reached, broke off, or what arrived is not the file.
        NotAtAddress: the server has no such file.
    """
    _check_scheme(url)
    try:
        import rich  # noqa: F401
    except ImportError as error:
        raise DataError(f"downloads need more: pip install 'torch-legs[cli]' ({error})") from error
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = lock_file(path.with_name(f".{path.name}.lock"), wait=True)
        assert lock is not None
        with lock:
            if not path.exists():  # or another process was faster
                _fetch(url, part, timeout, largest)
                digest = _verify(part, path.name, url, sha256 or noted_digest(path))
                write_atomically(_digest_file(path), f"{digest}  {path.name}\n".encode())
                os.replace(part, path)
                sync_folder(path.parent)
    except HTTPError as error:
        kind = NotAtAddress if error.code in (404, 410) else DataError
        raise kind(f"{url} answered {error.code} {error.reason}") from error
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"the download from {url} failed ({reason})") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return path


def _check_scheme(url: str) -> None:
    if urlsplit(url).scheme.lower() not in ("http", "https"):
        raise DataError(f"{url[:200]}: only http and https addresses are downloaded")


class _Redirects(HTTPRedirectHandler):
    """Redirects to http and https only; the standard library follows ftp as well."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(url: str, part: Path, timeout: float, largest: int) -> None:
    headers = {"User-Agent": "torch-legs", "Accept-Encoding": "identity"}
    opener = build_opener(_Redirects)
    size = 0
    with opener.open(Request(url, headers=headers), timeout=timeout) as answer:
        length = answer.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else None
        with part.open("wb") as file, _progress(part.stem, total) as advance:
            while size <= largest and (chunk := answer.read(_CHUNK)):
                file.write(chunk)
                size += len(chunk)
                advance(size)
            file.flush()
            os.fsync(file.fileno())
    if max(size, total or 0) > largest:
        raise DataError(f"{url} is larger than {largest:,} bytes")
    if total is not None and size < total:
        raise DataError(f"the download from {url} broke off after {size:,} of {total:,} bytes")


def noted_digest(path: Path) -> str | None:
    """The digest that a download had, as noted beside it; ``None`` where there is none."""
    match = re.match(r"[0-9a-fA-F]{64}\b", _read(_digest_file(path)))
    return None if match is None else match[0]


def _verify(part: Path, name: str, url: str, sha256: str | None) -> str:
    """The digest of what arrived; an error if it is not the file."""
    fault = ""
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 is not None and digest != sha256.lower():
        fault = f"its sha256 is {digest}, not {sha256}"
    elif name.lower().endswith(".zip"):
        fault = _zip_fault(part)
    if fault:
        raise DataError(f"what arrived from {url} is not {name} ({fault}); it was dropped")
    return digest


def _zip_fault(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path, LARGEST)
            for member in archive.infolist():
                for _ in iter_member(archive, member):  # checks as it reads
                    pass
    except Exception as error:  # zipfile, zlib and lzma raise errors of many classes
        return f"not a whole zip file: {error}"
    return ""


@contextmanager
def _progress(name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, to be called with the bytes so far; nothing elsewhere."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)
        yield lambda size: bar.update(task, completed=size)


def _digest_file(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
