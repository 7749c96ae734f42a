"""Files that unpack to more than they hold: Parquet dictionaries, members of zip files."""

from __future__ import annotations

import io
import struct
import zipfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from legs.io import read_arrays
from tests.fuzz import seeds
from tests.fuzz.mutate import WHOLE, mutated
from tests.fuzz.target import Broken, Files, Target
from tests.fuzz.targets_data import reading, whole

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
# Of an entry in the list at the end of a zip file, and of the header before a member.
FIELDS = (
    {"flags": 8, "method": 10, "crc": 16, "packed": 20, "size": 24},
    {"flags": 6, "method": 8, "crc": 14, "packed": 18, "size": 22},
)
MARKS = (b"PK\x01\x02", b"PK\x03\x04")


def dictionary_parquet(rng: Random, files: Files) -> Files:
    """A table whose rows refer to few strings: short or of a megabyte, sound or not."""
    if rng.random() < 0.3:
        return {"t.parquet": mutated(rng, files["t.parquet"], (b"PAR1",))}
    text = rng.choice(seeds.SMILES).encode()
    if rng.random() < 0.5:
        text = mutated(rng, text, (b"c1ccccc1",))
    rows = rng.choice((6, 6, 6, 20, 50))
    if rng.random() < 0.1:
        text *= rng.choice((10, 50))
    elif rng.random() < 0.04:  # more than is read of one molecule
        text *= 1_000_000 // max(len(text), 1) + 1
        rows = rng.choice((6, 50, 200, 19_000))
    values = [text, *(value.encode() for value in seeds.SMILES)]
    # The first string in all rows, in one of seven, or once.
    indices = np.arange(rows) % 7 * rng.choice((0, 1, 1))
    if rng.random() < 0.3:
        indices[1:] = np.maximum(indices[1:], 1)
    column = pa.DictionaryArray.from_arrays(
        pa.array(indices.astype(rng.choice(("i1", "i4", "i8")))), pa.array(values, pa.binary())
    )
    kind = rng.choice((pa.binary(), pa.large_binary(), pa.string()))
    if kind == pa.string():  # without a check, as a hostile program would
        value = pa.Array.from_buffers(pa.string(), len(values), column.dictionary.buffers())
        column = pa.DictionaryArray.from_arrays(column.indices, value, safe=False)
    target = pa.array(np.arange(rows) % 3 / 3)
    table = pa.table({"smiles": column, "target": target if rng.random() < 0.7 else column})
    file = io.BytesIO()
    parquet.write_table(
        table,
        file,
        compression="zstd" if len(text) > 10_000 else rng.choice(("zstd", "snappy", "none")),
        dictionary_pagesize_limit=rng.choice((1 << 10, 1 << 20, 1 << 30)),
        store_schema=rng.random() < 0.5,
        row_group_size=rng.choice((rows, 1_000)),
    )
    return {"t.parquet": file.getvalue()}


@cache
def _zeros(method: int, megabytes: int) -> bytes:
    """A zip file with one member of zeros."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive, archive.open("zeros", "w") as member:
        for _ in range(megabytes):
            member.write(bytes(1 << 20))
    return file.getvalue()


def _archive(rng: Random, parts: Files) -> bytes:
    """A zip file of some members, each packed in its own way; one may be a bomb."""
    file, odd = io.BytesIO(), rng.choice(sorted(parts))
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content, rng.choice(METHODS if name == odd else METHODS[:2]))
    content = file.getvalue()
    if rng.random() < 0.1:
        content = _with_bomb(rng, content, rng.choice(sorted(parts)))
    if rng.random() < 0.7:
        content = _with_lies(rng, content)
    return mutated(rng, content, (b"PK",)) if rng.random() < 0.2 else content


def _with_bomb(rng: Random, content: bytes, name: str) -> bytes:
    """A member replaced by zeros: packed sizes and checksums are right."""
    bomb = _zeros(rng.choice(METHODS[1:]), rng.choice((1, 1, 16, 80)))
    with zipfile.ZipFile(io.BytesIO(bomb)) as archive:
        info = archive.getinfo("zeros")
    start = bomb.index(b"zeros") + len("zeros")
    packed = bomb[start : start + info.compress_size]
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
        for each in old.infolist():
            if each.filename == name:
                new.writestr(name, packed, zipfile.ZIP_STORED)
            else:
                new.writestr(each.filename, old.read(each), each.compress_type)
        place = [each.filename for each in new.infolist()].index(name)
    found = bytearray(file.getvalue())
    known = {"method": info.compress_type, "crc": info.CRC, "size": info.file_size}
    for fields, mark in zip(FIELDS, MARKS, strict=True):
        entry = _entries(found, mark)[place]
        for field, value in known.items():
            _put(found, entry + fields[field], value, 2 if field == "method" else 4)
    return bytes(found)


def _with_lies(rng: Random, content: bytes) -> bytes:
    """Other sizes, methods or checksums in the list of members, and perhaps before a member."""
    found = bytearray(content)
    for fields, mark in zip(FIELDS, MARKS, strict=True):
        entries = _entries(found, mark)
        if not entries or rng.random() < 0.4:
            continue
        entry = rng.choice(entries)
        field = rng.choice(("size", "size", "size", "packed", "crc", "method", "flags"))
        (old,) = struct.unpack_from("<I", found, entry + fields[field])
        sizes = (0, 1, 100, old + 1, max(old - 1, 0), 63 << 20, 1 << 30, *WHOLE)
        if field in ("method", "flags"):
            _put(found, entry + fields[field], rng.choice((0, 1, 8, 12, 14, 93, 99, 0x800)), 2)
        else:
            _put(found, entry + fields[field], rng.choice(sizes) % 2**32, 4)
    return bytes(found)


def _entries(content: bytearray, mark: bytes) -> list[int]:
    found, place = [], content.find(mark)
    while place >= 0 and place + 46 < len(content):
        found.append(place)
        place = content.find(mark, place + 4)
    return found


def _put(content: bytearray, place: int, value: int, width: int) -> None:
    content[place : place + width] = value.to_bytes(width, "little")


def _tu(rng: Random, _: Files) -> Files:
    return {"SET.zip": _archive(rng, seeds.tu())}


def _npz(rng: Random, _: Files) -> Files:
    parts: Files = {}
    for name, array in (("a", np.arange(6)), ("b", np.eye(3)), ("c", np.array("text"))):
        file = io.BytesIO()
        np.save(file, array)
        parts[f"{name}.npy"] = file.getvalue()
    if rng.random() < 0.2:
        name = rng.choice(sorted(parts))
        parts[name] = mutated(rng, parts[name], (b"'descr': '|O'", b"(1000000000000,)"))
    if rng.random() < 0.2:
        parts = {**parts, **{f"{k}.npy": parts["a.npy"] for k in range(rng.choice((10, 100)))}}
    return {"some.npz": _archive(rng, parts)}


def _arrays(folder: Path) -> Any:
    return read_arrays(folder / "some.npz")


def _no_objects(found: dict[str, Any]) -> None:
    if any(array.dtype.hasobject for array in found.values()):
        raise Broken("an array of Python objects")


def packed_targets() -> list[Target]:
    """All of them."""
    dictionaries: Files = {"t.parquet": seeds.parquet(compression="zstd")}
    return [
        Target(
            "Parquet dictionaries",
            [dictionaries],
            reading("t.parquet", target="target"),
            whole,
            dictionary_parquet,
        ),
        Target(
            "compressed members, TU",
            [{"SET.zip": seeds.tu_zip(zipfile.ZIP_LZMA)}, {"SET.zip": seeds.tu_zip(8)}],
            reading("SET.zip"),
            whole,
            _tu,
        ),
        Target(
            "compressed members, arrays",
            [_sound_npz()],
            _arrays,
            _no_objects,
            _npz,
        ),
    ]


def _sound_npz() -> Files:
    file = io.BytesIO()
    np.savez_compressed(file, a=np.arange(6), b=np.eye(3))
    return {"some.npz": file.getvalue()}
