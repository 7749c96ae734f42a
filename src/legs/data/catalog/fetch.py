"""Files of data sets: the data folder, the cache, installed packages, downloads."""

from __future__ import annotations

import os
import re
import zipfile
from collections import deque
from collections.abc import Sequence
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tqdm import tqdm

from legs import io
from legs.data.errors import DataError

VARIABLE = "LEGS_DATA"
LARGEST = 8 << 30  # bytes; no set is near it, and an endless answer must not fill the disk
_CHUNK, _TIMEOUT = 1 << 18, 30.0  # bytes, seconds


def data_dir() -> Path | None:
    """The folder the environment variable ``LEGS_DATA`` names, or ``None`` where it is not set."""
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
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "torch-legs"


def find(relative: str) -> Path | None:
    """A file or folder such as ``"qm9/qm9.parquet"`` in ``LEGS_DATA`` or else in the cache."""
    return _first([data_dir(), cache_dir()], relative)


def find_in_package(package: str, relative: str) -> Path | None:
    """A file inside an installed package, without importing it; ``None`` if it is not there."""
    spec = find_spec(package)
    return _first([Path(f) for f in (spec and spec.submodule_search_locations) or ()], relative)


def _first(folders: Sequence[Path | None], relative: str) -> Path | None:
    # Names of data sets come from users and end up in paths.
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or re.search(r"^[/~]|[\\:\0]", relative):
        raise DataError(f"{relative!r} is not a path inside the data folder")
    paths = (folder / relative for folder in folders if folder is not None)
    return next((path for path in paths if path.exists()), None)


def require(relative: str, *, url: str | None = None, sha256: str | None = None) -> Path:
    """A file of the data: found as by :func:`find`, or else downloaded into the cache."""
    if (path := find(relative)) is not None:
        return path
    target = cache_dir() / relative
    by_hand = f"put it at {target}, or set {VARIABLE} to a folder that holds {relative}"
    if url is None:
        raise DataError(f"{relative} was not found, and has no public address: {by_hand}")
    try:
        return download(url, target, sha256=sha256)
    except DataError as error:
        advice = f"To do without, download {url} elsewhere and {by_hand}."
        raise DataError(f"{relative}: {error}. {advice}") from error


def download(url: str, path: Path, *, sha256: str | None = None, largest: int = LARGEST) -> Path:
    """Downloads a file, with a progress bar on a terminal; returns ``path``.

    ``path`` appears atomically, after length, digest and, for a zip, the checksums of its members
    have been verified.
    """
    _check_scheme(url)
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = io.open_temporary(path)
        try:
            _fetch(url, temporary.file, path.name, largest)
            temporary.flush()
            if fault := _fault(temporary.path, path.name, sha256):
                what = f"what arrived from {url} is not {path.name}"
                raise DataError(f"{what} ({fault}); it was dropped")
            temporary.put_in_place(path)
        finally:
            temporary.drop()
    except HTTPError as error:
        raise DataError(f"{url} answered {error.code} {error.reason}") from error
    except (HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"the download from {url} failed ({reason})") from error
    return path


def _check_scheme(url: str) -> None:
    if urlsplit(url).scheme.lower() not in ("http", "https"):
        raise DataError(f"{url[:200]}: only http and https addresses are downloaded")


class _Redirects(HTTPRedirectHandler):
    """Redirects to http and https only; the standard library follows ftp as well."""

    def redirect_request(self, req: Request, *rest: Any) -> Request | None:
        _check_scheme(rest[-1])
        return super().redirect_request(req, *rest)


def _fetch(url: str, file: IO[bytes], name: str, largest: int) -> None:
    headers, size = {"User-Agent": "torch-legs", "Accept-Encoding": "identity"}, 0
    with build_opener(_Redirects).open(Request(url, headers=headers), timeout=_TIMEOUT) as answer:
        length = answer.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else 0
        # Without a terminal there is no bar.
        bar = tqdm.wrapattr(answer, "read", total=total or None, desc=name, disable=None)
        with bar as reader:
            while size <= largest and (chunk := reader.read(_CHUNK)):
                size += file.write(chunk)
    if max(size, total) > largest:
        raise DataError(f"{url} is larger than {largest:,} bytes")
    if size < total:
        raise DataError(f"the download from {url} broke off after {size:,} of {total:,} bytes")


def _fault(part: Path, name: str, sha256: str | None) -> str:
    """Why what arrived is not the file, or an empty text."""
    if sha256 is not None and (digest := io.file_digest(part)) != sha256.lower():
        return f"its sha256 is {digest}, not {sha256}"
    if name.lower().endswith(".zip"):
        try:
            with zipfile.ZipFile(part) as archive:
                io.check_archive(archive, part, LARGEST)
                for member in archive.infolist():
                    deque(io.iter_member(archive, member), maxlen=0)  # checks as it reads
        except Exception as error:  # zipfile, zlib and lzma raise errors of many classes
            return f"not a whole zip file: {error}"
    return ""
