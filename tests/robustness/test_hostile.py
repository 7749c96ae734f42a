"""Files that are made to harm: to run code, to fill memory or disk, to write elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pickle
import struct
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.packed import unpack
from legs.data import DataError, load
from legs.data.catalog.cache import load_dataset, save_dataset
from legs.data.catalog.fetch import download
from legs.data.readers import folders, table_files
from legs.io import FileError, digest_of, read_arrays, reading
from legs.models import ModelError, create, load_network
from legs.training import load as load_model
from legs.training.checkpoint import load_state
from legs.training.cv.store import Store
from tests.data.tu_sets import TWO_GRAPHS, write_zip
from tests.data.web import serve
from tests.training.made import made_data


class Hostile:
    """Unpickled, it writes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def harm(tmp_path):
    """A pickle that does harm, and the harm it does."""
    marker = tmp_path / "harm"
    text = pickle.dumps(Hostile(marker))
    pickle.loads(text)
    assert marker.is_dir(), "the pickle must be one that works"
    marker.rmdir()
    yield text
    assert not marker.exists(), "a file was unpickled"


def objects(text: bytes) -> bytes:
    """A .npz file whose arrays are pickled objects."""
    header = io.BytesIO()
    known = {"descr": "|O", "fortran_order": False, "shape": (1,)}
    np.lib.format.write_array_header_1_0(header, known)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("n_res", "xyz_cA", "known", "sizes"):
            archive.writestr(f"{name}.npy", header.getvalue() + text)
    return file.getvalue()


def test_pickles_in_place_of_every_file(harm, tmp_path):
    saved = tmp_path / "model"
    create("baseline", 2, 3).save(saved)
    for name in ("model.json", "weights.safetensors"):
        whole = (saved / name).read_bytes()
        (saved / name).write_bytes(harm)
        for read in (load_network, load_model):
            with pytest.raises(ModelError):
                read(saved)
        (saved / name).write_bytes(whole)
    # The checksum is right: whoever passes on a model can compute one as well.
    known = json.loads((saved / "model.json").read_text())
    del known["sha256"]
    seals = {
        "weights.safetensors": hashlib.sha256(harm).hexdigest(),
        "model.json": digest_of(known),
    }
    (saved / "model.json").write_text(json.dumps({**known, "sha256": seals}))
    (saved / "weights.safetensors").write_bytes(harm)
    with pytest.raises(ModelError, match=r"weights\.safetensors is damaged"):
        load_network(saved)

    (tmp_path / "checkpoint.bin").write_bytes(hashlib.sha256(harm).digest() + harm)
    with pytest.raises(ModelError, match="damaged"):
        load_state(tmp_path / "checkpoint.bin", {})
    (tmp_path / "cv" / "models").mkdir(parents=True)
    (tmp_path / "cv" / "models" / "a.bin").write_bytes(hashlib.sha256(harm).digest() + harm)
    with pytest.raises(ModelError, match="damaged"):
        Store(tmp_path / "cv", {}).load("a")

    prepared = save_dataset(tmp_path / "set", made_data(graphs=2))
    prepared.write_bytes(harm)
    with pytest.raises(DataError):
        load_dataset(prepared)
    for content in (harm, objects(harm)):
        (tmp_path / "some.npz").write_bytes(content)
        with pytest.raises(DataError):
            unpack(tmp_path / "some.npz")
        with pytest.raises(FileError):
            read_arrays(tmp_path / "some.npz")
    for name in ("t.csv", "t.smi", "t.sdf", "t.parquet", "t.zip", "t.csv.gz"):
        (tmp_path / name).write_bytes(harm)
        with pytest.raises(DataError):
            load(tmp_path / name, cache=False)


def test_pickles_inside_parquet(harm, tmp_path):
    """Columns of a type that once made pyarrow unpickle their description."""
    import pyarrow as pa
    from pyarrow import parquet

    about = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": harm}
    field = pa.field("smiles", pa.string(), metadata=about)
    table = pa.table([["CC", "CO"]], schema=pa.schema([field]))
    table = table.replace_schema_metadata({"pandas": harm})
    parquet.write_table(table, tmp_path / "t.parquet")
    with suppress(DataError):
        load(tmp_path / "t.parquet", cache=False)


def bomb(size: int = 30 << 20) -> bytes:
    return b"1\n" * (size // 2)


@pytest.fixture
def small_bounds(monkeypatch):
    """Bombs of megabytes are large enough here."""
    monkeypatch.setattr(reading, "FREE", 1 << 20)
    monkeypatch.setattr(table_files, "GZIP_FREE", 1 << 20)
    monkeypatch.setattr(table_files, "FREE_ROWS", 10_000)


def test_zip_bombs(tmp_path, small_bounds):
    path = write_zip(tmp_path / "SET.zip", {**TWO_GRAPHS, "graph_indicator": bomb()})
    assert path.stat().st_size < 60_000
    start = time.process_time()
    with pytest.raises(DataError, match=r"unpacks to 31,4\d\d,\d\d\d: no honest file does"):
        load(path, cache=False)
    assert time.process_time() - start < 1
    with serve() as web:
        web.files["/SET.zip"] = path.read_bytes()
        with pytest.raises(DataError, match="no honest file does"):
            download(f"{web.address}/SET.zip", tmp_path / "new" / "SET.zip")
    assert not (tmp_path / "new" / "SET.zip").exists()
    # Sizes that a zip does not tell the truth about: nothing is read beyond what it says.
    lying = bytearray(write_zip(tmp_path / "b.zip", TWO_GRAPHS).read_bytes())
    place = lying.index(b"PK\x01\x02")
    lying[place + 24 : place + 28] = struct.pack("<I", 3)
    (tmp_path / "b.zip").write_bytes(lying)
    with pytest.raises(DataError):
        load(tmp_path / "b.zip", cache=False)


def test_bombs_of_arrays(tmp_path, small_bounds):
    np.savez_compressed(tmp_path / "some.npz", n_res=np.zeros(10 << 20, dtype=np.int64))
    with pytest.raises(FileError, match="no honest file does"):
        read_arrays(tmp_path / "some.npz")
    for shape in ((10**15,), (10**6, 10**6, 10**6), (-1,), (2**62, 4)):
        header = io.BytesIO()
        known = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, known)
        with zipfile.ZipFile(tmp_path / "some.npz", "w") as archive:
            archive.writestr("n_res.npy", header.getvalue() + bytes(8))
        with pytest.raises(FileError, match=r"claims|cannot be read"):
            read_arrays(tmp_path / "some.npz")


def test_compressed_tables(tmp_path, small_bounds):
    pytest.importorskip("rdkit", reason="tables hold SMILES")
    (tmp_path / "t.smi.gz").write_bytes(gzip.compress((b"C" * 2000 + b"\n") * 10_000))
    with pytest.raises(DataError, match="no honest table does"):
        load(tmp_path / "t.smi.gz", cache=False)
    pd.DataFrame({"smiles": ["C"] * 200_000}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="200,000 rows: no honest table does"):
        load(tmp_path / "t.parquet", cache=False)


def test_label_tables_of_another_encoding(tmp_path):
    """Parquet calls a column text, and its bytes are none."""
    import pyarrow as pa
    from pyarrow import parquet

    names = pa.array([b"one\xff", b"two"], pa.binary()).view(pa.utf8())
    parquet.write_table(pa.table({"file": names, "target": [0, 1]}), tmp_path / "labels.parquet")
    for name in ("one", "two"):
        (tmp_path / f"{name}.edgelist").write_text("1 2\n")
    with pytest.raises(DataError, match=r"labels\.parquet is not a Parquet file that can be read"):
        load(tmp_path, cache=False)


def test_label_tables_with_more_rows_than_files(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "MOST_ROWS", 1_000)
    pd.DataFrame({"file": ["one"] * 5_000}).to_parquet(tmp_path / "labels.parquet")
    (tmp_path / "one.edgelist").write_text("1 2\n")
    with pytest.raises(DataError, match="more than 1,000 rows"):
        load(tmp_path, cache=False)


def test_names_without_end_in_messages(tmp_path):
    long = "A" * 70_000
    for name, node in (("one", "id 0"), ("two", f"id 0 {long} 1")):
        (tmp_path / f"{name}.gml").write_text(f"graph [ node [ {node} ] node [ id 1 ] ]")
    with pytest.raises(DataError) as caught:
        load(tmp_path, features="attributes", cache=False)
    assert 100 < len(str(caught.value)) < 4_000


def test_models_that_claim_to_be_giants(tmp_path):
    create("legs-fcn", 2, 3).save(tmp_path / "legs")
    create("legs-fcn", 2, 3).save(tmp_path / "increasing")
    create("gcn", 2, 3).save(tmp_path / "gcn")
    giants = [
        ("legs", ("scattering", "order"), 16),
        ("legs", ("scattering", "order"), 10**18),
        ("increasing", ("scattering", "order"), 10**18),
        ("legs", ("scattering", "scales"), list(range(1, 100_000))),
        ("legs", ("scattering", "num_scales"), 1_000_000),
        ("legs", ("scattering", "steps"), 10**12),
        ("legs", ("scattering", "in_channels"), 9_000_000),
        ("legs", ("head", "hidden_channels"), 9_999_999),
        ("gcn", ("num_layers",), 10**9),
        ("gcn", ("hidden_channels",), 5_000_000),
    ]
    for folder, names, value in giants:
        file = tmp_path / folder / "model.json"
        whole = file.read_bytes()
        known = json.loads(whole)
        part = known["network"]["description"]
        for name in names[:-1]:
            part = part[name]
        part[names[-1]] = value
        if names[-1] == "order" and folder == "legs":
            part["paths"] = "all"
        seals = known.pop("sha256")
        known["sha256"] = {**seals, "model.json": digest_of(known)}
        file.write_text(json.dumps(known))
        start = time.process_time()
        with pytest.raises(ModelError, match="cannot be rebuilt"):
            load_network(tmp_path / folder)
        assert time.process_time() - start < 5
        file.write_bytes(whole)
        load_network(tmp_path / folder)


def test_lengths_of_safetensors(tmp_path):
    create("baseline", 2, 3).save(tmp_path)
    known = json.loads((tmp_path / "model.json").read_text())
    for content in (struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 10**8) + b"{}", b""):
        (tmp_path / "weights.safetensors").write_bytes(content)
        known["sha256"]["weights.safetensors"] = hashlib.sha256(content).hexdigest()
        (tmp_path / "model.json").write_text(json.dumps(known))
        with pytest.raises(ModelError, match=r"weights\.safetensors is damaged"):
            load_network(tmp_path)
