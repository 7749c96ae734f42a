"""Small valid files of every kind, to be damaged."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from tests.data.graph_text import sample
from tests.data.graph_text import write as write_graph
from tests.data.pdb_text import chain, pdb_lines
from tests.data.tu_sets import TWO_GRAPHS
from tests.fuzz.target import Files, listing

SMILES = ("CCO", "c1ccccc1", "CC(=O)[O-].[Na+]", "N[C@@H](C)C(=O)O", "C", "[2H]OC#N")


def folder_of(make: Callable[[Path], object]) -> Files:
    """All files that ``make`` writes into a folder."""
    with TemporaryDirectory() as name:
        make(Path(name))
        return {file: (Path(name) / file).read_bytes() for file in listing(Path(name))}


def csv_text(separator: str = ",") -> bytes:
    """Molecules with ids, a class and a number."""
    rows = [("id", "smiles", "kind", "logS")]
    rows += [(f"m{i}", text, "ab"[i % 2], f"{i / 3:.2f}") for i, text in enumerate(SMILES)]
    return "".join(separator.join(row) + "\n" for row in rows).encode()


def quoted_csv() -> bytes:
    """The same with quotation marks, other line ends and a byte order mark."""
    lines = ["smiles;target", *(f'"{text}";"{i},5 ""x"""' for i, text in enumerate(SMILES))]
    return b"\xef\xbb\xbf" + "\r\n".join(lines).encode()


def smi() -> bytes:
    """SMILES and names."""
    return "".join(f"{text} name {i}\n" for i, text in enumerate(SMILES)).encode()


def sdf() -> bytes:
    """Molecules with properties."""
    from rdkit import Chem

    file = io.StringIO()
    with Chem.SDWriter(file) as writer:
        for i, text in enumerate(SMILES[:4]):
            mol = Chem.MolFromSmiles(text)
            mol.SetProp("_Name", f"m{i}")
            mol.SetProp("target", f"{i}")
            writer.write(mol)
    return file.getvalue().encode()


def parquet(**options: object) -> bytes:
    """The same table, packed."""
    frame = pd.DataFrame({"smiles": SMILES, "target": np.arange(6) / 3, "name": list("abcdef")})
    file = io.BytesIO()
    frame.to_parquet(file, **options)
    return file.getvalue()


def packed_csv() -> bytes:
    """A compressed text table."""
    return gzip.compress(csv_text())


def tu() -> Files:
    """Two graphs, and numbers to regress."""
    return {f"SET_{part}.txt": text.encode() for part, text in TWO_GRAPHS.items()}


def tu_zip(method: int) -> bytes:
    """The same as a zip."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for part, text in TWO_GRAPHS.items():
            archive.writestr(f"SET/SET_{part}.txt", text)
    return file.getvalue()


def graphs(ending: str) -> Files:
    """Two graphs of three nodes and a table of their targets."""

    def make(folder: Path) -> None:
        for name in ("one", "two"):
            write_graph(folder / f"{name}{ending}", sample())
        (folder / "labels.csv").write_text("file,target\none,a\ntwo,b\n")

    return folder_of(make)


def labels_parquet() -> Files:
    """An edge list each, and their targets in a Parquet file."""
    table = io.BytesIO()
    pd.DataFrame({"file": ["one", "two"], "target": [0.5, 1.5]}).to_parquet(table)
    edges = b"a b 2.0\nb c\nc a 0.5\n"
    return {
        "one.edgelist": edges,
        "two.edgelist": b"# x\n1,2\n",
        "labels.parquet": table.getvalue(),
    }


def pdb() -> Files:
    """Two chains, one with two models, and their scores."""
    first, second = (pdb_lines(chain(n, seed=n)) for n in (6, 5))
    models = ["MODEL        1", *first, "ENDMDL", "MODEL        2", *first, "ENDMDL", "END"]
    return {
        "one.pdb": "\n".join(models).encode(),
        "two.ent": "\n".join(second).encode(),
        "labels.csv": b"file,gdt\none,55.5\ntwo,12\n",
    }


def cif() -> Files:
    """A structure in mmCIF."""
    names = (
        "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id "
        "label_entity_id label_seq_id pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy "
        "auth_seq_id auth_comp_id auth_asym_id auth_atom_id pdbx_PDB_model_num"
    )
    rows = [
        f"ATOM {i + 1} C CA . ALA A 1 {i + 1} ? {x:.3f} {y:.3f} {z:.3f} 1.00 {i + 1} ALA A CA 1"
        for i, (x, y, z) in enumerate(chain(6))
    ]
    text = ["data_one", "loop_", *(f"_atom_site.{name}" for name in names.split()), *rows, "#"]
    return {"one.cif": "\n".join(text).encode(), "labels.csv": b"file,gdt\none,1\n"}


def structures_npz(save: Callable[..., None]) -> Files:
    """Coordinates of structures one after another."""
    file = io.BytesIO()
    save(file, n_res=np.array([4, 3]), xyz_cA=(chain(7) * 100).astype(np.int32))
    return {"some.npz": file.getvalue()}


def splits() -> Files:
    """Splits with and without checksums."""
    from legs.data.splits import random_split, save_splits

    files = folder_of(
        lambda folder: save_splits(folder / "s.json", [random_split(12), random_split(12, seed=1)])
    )
    return files


def plain_splits() -> Files:
    """Written by hand."""
    return {
        "s.json": json.dumps([{"train": [0, 1, 2], "validation": [3], "test": [4, 5]}]).encode()
    }
