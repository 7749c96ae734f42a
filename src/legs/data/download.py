"""Downloads that are whole or absent: resumed, checked, then renamed into place."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from filelock import FileLock

from legs.data.errors import DataError
from legs.files import check_archive, sync_folder, write_atomically

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

    What arrives is written to ``NAME.part`` beside ``path``. A broken download is taken up where
    it stopped the next time (HTTP Range), if the file at the address is still the same. ``path``
    appears in one step, after length, digest and, for a zip, the checksums of its members agree.
    Its digest is noted in ``NAME.sha256``; while that is there, only the same file is taken.

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
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{path.name}.lock")):
            if not path.exists():  # or another process was faster
                _fetch(url, part, timeout, largest)
                digest = _check(part, path.name, url, sha256 or noted_digest(path))
                write_atomically(_digest_file(path), f"{digest}  {path.name}\n".encode())
                os.replace(part, path)
                sync_folder(path.parent)
                _version_file(part).unlink(missing_ok=True)
    except HTTPError as error:
        kind = NotAtAddress if error.code in (404, 410) else DataError
        raise kind(f"{url} answered {error.code} {error.reason}") from error
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"the download from {url} failed ({reason})") from error
    return path


def _fetch(url: str, part: Path, timeout: float, largest: int) -> None:
    """Completes ``part``, or raises and leaves what has arrived."""
    # If-Range: without the version of what is there, new bytes might continue an older file.
    version = _read(_version_file(part))
    start = part.stat().st_size if part.exists() and version else 0
    headers = {"User-Agent": "torch-legs", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    try:
        answer: HTTPResponse = urlopen(Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        if error.code != 416 or not start:
            raise
        # Nothing is left to send: the part is whole, or longer than the file and useless.
        if error.headers.get("Content-Range") == f"bytes */{start}":
            return
        part.unlink()
        return _fetch(url, part, timeout, largest)
    with answer:
        if answer.status != 206:
            start = 0
        elif not _continues(answer, start):
            raise DataError(f"{url} answered with another part of the file than asked for")
        length = answer.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        if max(total or 0, start) > largest:
            raise DataError(f"{url} is larger than {largest:,} bytes")
        if not start:  # before the version is noted: it must never belong to other bytes
            part.unlink(missing_ok=True)
        write_atomically(_version_file(part), _version(answer).encode())
        size = _write(answer, part, start, total, largest)
    if total is not None and size < total:
        raise DataError(
            f"the download from {url} broke off after {size:,} of {total:,} bytes; "
            "the next try goes on from there"
        )


def _write(answer: HTTPResponse, part: Path, start: int, total: int | None, largest: int) -> int:
    size = start
    with part.open("r+b" if start else "wb") as file, _progress(part.stem, start, total) as tell:
        file.seek(start)
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            size += len(chunk)
            tell(size)
            if size > largest:
                file.truncate(0)
                raise DataError(f"the download of {part.stem} is larger than {largest:,} bytes")
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    return size


def noted_digest(path: Path) -> str | None:
    """The digest that a download had, as noted beside it; ``None`` where there is none."""
    found = re.match(r"[0-9a-fA-F]{64}\b", _read(_digest_file(path)))
    return None if found is None else found[0]


def _check(part: Path, name: str, url: str, sha256: str | None) -> str:
    """The digest of a part; one that is not the file is dropped, so that the next begins anew."""
    fault = ""
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 is not None and digest != sha256.lower():
        fault = f"its sha256 is {digest}, not {sha256}"
    elif name.lower().endswith(".zip"):
        fault = _zip_fault(part)
    if fault:
        part.unlink()
        _version_file(part).unlink(missing_ok=True)
        raise DataError(f"what arrived from {url} is not {name} ({fault}); it was dropped")
    return digest


def _zip_fault(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path, LARGEST)
            for member in archive.infolist():
                with archive.open(member) as file:
                    while file.read(1 << 16):  # checks as it reads
                        pass
    except Exception as error:  # zipfile, zlib and lzma raise errors of many classes
        return f"not a whole zip file: {error}"
    return ""


@contextmanager
def _progress(name: str, start: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, told the bytes so far; nothing where there is none."""
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
        task = bar.add_task(name, total=total, completed=start)
        yield lambda size: bar.update(task, completed=size)


def _version(answer: HTTPResponse) -> str:
    """What If-Range can compare: a strong ETag, else the date of the last change."""
    etag = answer.headers.get("ETag", "")
    return etag if etag.startswith('"') else answer.headers.get("Last-Modified", "")


def _continues(answer: HTTPResponse, start: int) -> bool:
    match = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return match is not None and int(match[1]) == start


def _digest_file(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _version_file(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
