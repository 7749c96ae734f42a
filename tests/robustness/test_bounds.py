"""Small files that unpack, expand or compute to more than a machine has."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.data.tu_sets import TWO_GRAPHS

GROWTH = 80 << 20
ZEROS = 128 << 20
ZIPS = {"tu": r"SET\.zip", "npz": r"a\.npz", "shown": r"shown\.npz"}
BZIP2 = r"its member 'SET_A\.txt' is compressed with bzip2, which is not read"
# Reads every file in turn, and writes what came of it, with the memory and seconds it took.
CHILD = """
import json, re, resource, sys, time
from pathlib import Path
import pyarrow.parquet, rdkit.Chem
from legs.data import load
from legs.explain.runs import drawn_graphs
from legs.io import read_arrays

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))

def status(name):
    return int(re.search(name + r":\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) << 10

for name in sys.argv[1:]:
    path = Path(name)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = status("VmRSS"), time.process_time()
    try:
        if path.name == "shown.npz":
            result = drawn_graphs(path)
        elif path.suffix == ".npz":
            result = read_arrays(path)
        else:
            result = load(path, cache=False, target=[] if path.suffix in (".smi", ".sdf") else None)
        error = ""
        result = len(result)
    except Exception as e:
        result, error = None, f"{type(e).__name__}: {e}"
    took = [status("VmHWM") - before, time.process_time() - start]
    print(json.dumps([name, result, error[:2000], *took]), flush=True)
"""


def lying_zip(method: int) -> bytes:
    """A set of graphs, the first member of which has ``ZEROS`` bytes and declares 100."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        with archive.open("SET_A.txt", "w") as member:
            for _ in range(ZEROS >> 20):
                member.write(bytes(1 << 20))
        for part, text in TWO_GRAPHS.items():
            if part != "A":
                archive.writestr(f"SET_{part}.txt", text, zipfile.ZIP_STORED)
    content = bytearray(file.getvalue())
    place = content.index(b"PK\x01\x02")
    content[place + 24 : place + 28] = struct.pack("<I", 100)
    return bytes(content)


def giant_dictionary(path: Path) -> Path:
    """An LZMA member as it should be, but for a decoder with a dictionary of 4 GiB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        content = io.BytesIO()
        np.save(content, np.arange(1000))
        archive.writestr("a.npy", content.getvalue())
    changed = bytearray(path.read_bytes())
    place = 30 + len("a.npy") + 4
    assert changed[place] == 93, "lc=3, lp=0, pb=2, then the size"
    changed[place + 1 : place + 5] = b"\xff\xff\xff\xff"
    path.write_bytes(changed)
    return path


def shared_string(path: Path, rows: int) -> Path:
    """A column in which every row refers to one string of 1 MB."""
    import pyarrow as pa
    from pyarrow import parquet

    column = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["C" * 1_000_000])
    options = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30, "store_schema": False}
    parquet.write_table(pa.table({"smiles": column}), path, **options)
    return path


def ring_sdf(atoms: int) -> str:
    rows = [f"M  V30 {i} C 0 0 0 0" for i in range(1, atoms + 1)]
    bonds = [f"M  V30 {i} 1 {i} {i % atoms + 1}" for i in range(1, atoms + 1)]
    body = "\n".join(
        [
            "M  V30 BEGIN CTAB",
            f"M  V30 COUNTS {atoms} {atoms} 0 0 0",
            "M  V30 BEGIN ATOM",
            *rows,
            "M  V30 END ATOM",
            "M  V30 BEGIN BOND",
            *bonds,
            "M  V30 END BOND",
            "M  V30 END CTAB",
            "M  END",
            "$$$$",
        ]
    )
    return f"ring\n\n\n  0  0  0     0  0            999 V3000\n{body}\n"


def ring(atoms: int) -> str:
    return f"C1{'C' * (atoms - 2)}C1"


def complete(atoms: int) -> str:
    """Every atom bound to every other."""
    closing = [
        "".join(f"%({max(i, j) * atoms + min(i, j)})" for j in range(atoms) if abs(i - j) > 1)
        for i in range(atoms)
    ]
    return "".join(f"*{text}" for text in closing)


def wide_csv(columns: int) -> str:
    header = ["smiles", "target", *(f"c{i}" for i in range(columns))]
    rows = [[smiles, smiles, *["1"] * columns] for smiles in ("CC", "CO")]
    return "\n".join(",".join(row) for row in [header, *rows]) + "\n"


def hostile_files(folder: Path) -> dict[str, Path]:
    files = {}
    for name, method in (("bz2", 12), ("lzma", 14), ("deflate", 8)):
        content = lying_zip(method)
        for kind, file in ZIPS.items():
            files[f"{kind} {name}"] = folder / name / file.replace("\\", "")
            files[f"{kind} {name}"].parent.mkdir(exist_ok=True)
            files[f"{kind} {name}"].write_bytes(content)
    files["dictionary"] = giant_dictionary(folder / "giant.npz")
    files["parquet"] = shared_string(folder / "t.parquet", 20_000)
    (folder / "labelled").mkdir()
    (folder / "labelled" / "one.edgelist").write_text("1 2\n")
    shared_string(folder / "labelled" / "labels.parquet", 20_000)
    files["labels"] = folder / "labelled"
    for name, text in {
        "ring.smi": f"CCO\n{ring(19_990)}\n",
        "dense.smi": f"CCO\n{complete(32)}\n",
        "ring.sdf": ring_sdf(19_990),
        "wide.csv": wide_csv(100_000),
    }.items():
        files[name] = folder / name
        files[name].write_text(text)
    (folder / "json").mkdir()
    node = {"id": 0, "v": [1.0] * 200_000}
    (folder / "json" / "one.json").write_text(json.dumps({"nodes": [node], "links": []}))
    files["json"] = folder / "json"
    return files


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What came of every file: result, error, bytes of memory, seconds."""
    if sys.platform != "linux":
        pytest.skip("memory is limited and measured as Linux does")
    files = hostile_files(tmp_path_factory.mktemp("hostile"))
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, files.values())],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    rows = {row[0]: row[1:] for row in map(json.loads, ran.stdout.splitlines())}
    return {
        name: rows.get(str(path), [None, ran.stderr[-500:], 0, 0]) for name, path in files.items()
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((f"{kind} bz2", f"{file}: {BZIP2}") for kind, file in ZIPS.items()),
        *(
            (f"{kind} {method}", rf"{file}.*Bad CRC-32 for file 'SET_A\.txt'")
            for kind, file in ZIPS.items()
            for method in ("lzma", "deflate")
        ),
        ("parquet", r"t\.parquet has .* in column 'smiles', up to row 20000: no honest table"),
        ("labels", r"labels\.parquet has .* in column 'smiles', up to row 20000: no honest table"),
        ("ring.smi", r"ring\.smi line 2.*a ring system of 19,990 bonds and 1 rings"),
        ("dense.smi", r"dense\.smi line 2.*an atom with 31 neighbours in a system of 465 rings"),
        ("ring.sdf", r"ring\.sdf record 1.*a ring system of 19,990 bonds and 1 rings"),
        ("json", r"one\.json.*node 0 has more than 10,000 attributes; not read"),
    ],
)
def test_refused(outcomes, name, message):
    result, error, memory, seconds = outcomes[name]
    assert result is None
    assert re.search(message, error), error
    assert memory < GROWTH, f"{memory:,} bytes"
    assert seconds < 20


def test_read(outcomes):
    result, error, memory, seconds = outcomes["wide.csv"]
    assert (result, error) == (2, "")
    assert memory < 4 * GROWTH, f"{memory:,} bytes"
    assert seconds < 20


def test_a_giant_dictionary(outcomes):
    """Read, or refused where so much may not be reserved; never used."""
    result, error, memory, _ = outcomes["dictionary"]
    assert result == 1 or error.endswith("giant.npz cannot be read: MemoryError: ")
    assert memory < GROWTH, f"{memory:,} bytes"


def test_honest_lzma(tmp_path):
    """Members of more than one chunk."""
    from legs.io import read_arrays

    array = np.random.default_rng(0).integers(0, 50, 200_000)
    content = io.BytesIO()
    np.save(content, array)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", content.getvalue())
        archive.writestr("b.npy", content.getvalue(), zipfile.ZIP_DEFLATED)
    read = read_arrays(tmp_path / "a.npz")
    assert (read["a"] == array).all() and (read["b"] == array).all()
