"""Zip files of unknown origin, read within bounds."""

from __future__ import annotations

import copy
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from legs.io.digests import FileError

LARGEST = 8 << 30  # bytes of all members together
# Text and small numbers pack well, a hundredfold at most; bombs a thousandfold and more.
FREE, RATIO = 64 << 20, 200
_CHUNK = 1 << 20
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA}


def check_archive(archive: zipfile.ZipFile, path: Path, largest: int = LARGEST) -> None:
    """Refuses a zip file whose members declare more bytes than a genuine one holds.

    Args:
        archive: of which only the list of members is read.
        path: of it.
        largest: bytes that all members may have.

    Raises:
        FileError: says how large it claims to be.
    """
    total, packed = sum(info.file_size for info in archive.infolist()), path.stat().st_size
    if total > largest:
        raise FileError(f"{path} unpacks to {total:,} bytes; more than {largest:,} are not read")
    if total > FREE and total > RATIO * packed:
        raise FileError(
            f"{path} has {packed:,} bytes and unpacks to {total:,}: no honest file does, and it is "
            "not read"
        )


def iter_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """The bytes of a member, about 1 MiB at a time and never more than its declared size.

    ``zipfile`` unpacks bzip2 and LZMA without a limit and cuts the result to the declared size
    afterwards. Here LZMA is unpacked within it, and bzip2 is refused.

    Args:
        archive: checked by :func:`check_archive`, which bounds the declared sizes.
        info: of the member.

    Raises:
        FileError: another compression than deflate or LZMA, or a member larger than declared.
            Damaged members raise errors of many other classes.
    """
    if info.compress_type not in _METHODS:
        name = "bzip2" if info.compress_type == zipfile.ZIP_BZIP2 else "an unknown method"
        raise FileError(
            f"{archive.filename}: its member {info.filename!r} is compressed with {name}, which is "
            "not read; pack it with deflate, as zip does by default"
        )
    if info.compress_type == zipfile.ZIP_LZMA:
        yield from _iter_lzma(archive, info)
        return
    with archive.open(info) as file:  # checks the CRC at the end
        while chunk := file.read(_CHUNK):
            yield chunk


def _iter_lzma(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    # As a stored member without a CRC, zipfile returns the compressed bytes.
    packed = copy.copy(info)
    packed.compress_type, packed.file_size = zipfile.ZIP_STORED, info.compress_size
    del packed.CRC
    with archive.open(packed) as file:
        (length,) = struct.unpack("<2xH", file.read(4))
        decoder = _lzma_decoder(file.read(length), info.file_size)
        left, crc = info.file_size, 0
        while not decoder.eof:
            data = file.read(_CHUNK) if decoder.needs_input else b""
            if decoder.needs_input and not data:
                break
            # One byte more than declared is asked for, to see that it is not there.
            chunk = decoder.decompress(data, min(_CHUNK, left + 1))
            left -= len(chunk)
            if left < 0:
                raise FileError(
                    f"{archive.filename}: its member {info.filename!r} is larger than the "
                    f"{info.file_size:,} bytes it declares"
                )
            crc = zlib.crc32(chunk, crc)
            yield chunk
    if left or crc != info.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {info.filename!r}")


def _lzma_decoder(properties: bytes, size: int) -> lzma.LZMADecompressor:
    """A decoder with a dictionary no larger than what it unpacks, whatever the properties claim."""
    first, dictionary = struct.unpack("<BI", properties)
    rest, lc = divmod(first, 9)
    pb, lp = divmod(rest, 5)
    used = min(max(size + 1, 1 << 12), max(dictionary, 1 << 12))
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": used, "lc": lc, "lp": lp, "pb": pb}]
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
