"""Parsers of data."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from legs.data import load
from legs.data.catalog.structures import _coordinates
from legs.data.dataset import GraphDataset
from legs.data.splits import load_splits
from tests.fuzz import seeds
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Broken, Files, Target

SMILES_WORDS = (
    b"c1ccccc1",
    b"[nH]",
    b"C(=O)O",
    b"%99",
    b"[13C@@H+3:7]",
    b"smiles",
    b"target",
    b"NA",
)
XML_WORDS = (
    b'<!DOCTYPE x [<!ENTITY a "aaaa">]>',
    b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
    *(
        b"&a;",
        b"<node id='a'/>",
        b"<graph edgedefault='directed'>",
        b'attr.type="long"',
        b"<![CDATA[",
    ),
)
GML_WORDS = (
    b"graph [",
    b"node [ id 1 ]",
    b"directed 1",
    b"multigraph 1",
    b"edge [ source 0 target 1 ]",
    b"&#0;",
)
PDB_WORDS = (b"ATOM  ", b"HETATM", b"MODEL ", b"ENDMDL", b" CA ", b"TER", b"9999.999", b"********")
CIF_WORDS = (b"loop_", b"data_", b"_atom_site.Cartn_x", b"save_", b";\n", b"?", b".")


def whole(data: GraphDataset) -> None:
    """A data set is one: sizes agree, numbers are finite, edges stay in their graphs."""
    graphs, nodes = len(data), data.num_nodes
    if graphs < 1 or int(data.ptr[-1]) != nodes or bool((data.ptr.diff() < 1).any()):
        raise Broken("a data set without graphs, or with graphs without nodes")
    named = len(data.feature_names) in (0, data.x.shape[1])
    if not bool(torch.isfinite(data.x).all()) or not named:
        raise Broken("node features are not finite, or not as many as their names")
    if len(data.col) and not 0 <= int(data.col.min()) <= int(data.col.max()) < nodes:
        raise Broken("edges name nodes that are not there")
    row = torch.repeat_interleave(torch.arange(nodes), data.rowptr.diff())
    graph = torch.repeat_interleave(torch.arange(graphs), data.ptr.diff())
    if not torch.equal(graph[row], graph[data.col.long()]):
        raise Broken("an edge between two graphs")
    weight = data.edge_weight
    if weight is not None and not bool((torch.isfinite(weight) & (weight >= 0)).all()):
        raise Broken("weights that are negative or not finite")
    if data.y is not None and (len(data.y) != graphs or bool(torch.isinf(data.y.float()).any())):
        raise Broken("targets that are not one a graph, or infinite")
    if any(len(words) not in (0, graphs) for words in (data.ids, data.smiles)):
        raise Broken("ids or SMILES that are not one a graph")


def reading(name: str = "", **options: Any) -> Callable[[Path], GraphDataset]:
    """Loads a folder, or a file of it; bad rows are skipped every other time."""

    def read(folder: Path) -> GraphDataset:
        place = folder / name if name else folder
        size = sum(path.stat().st_size for path in folder.iterdir())
        return load(place, cache=False, on_error="skip" if size % 2 else "raise", **options)

    return read


def _zipped(rng: Random, seed: Files) -> Files:
    """Bytes of the archive changed, or the archive made anew with other members."""
    if rng.random() < 0.6:
        return {"SET.zip": mutated(rng, seed["SET.zip"], (seeds.tu_zip(zipfile.ZIP_STORED),))}
    import io

    file, parts = io.BytesIO(), dict(seeds.tu())
    name = rng.choice(sorted(parts))
    parts[name] = mutated(rng, parts[name], (b"1, 2\n",))
    with zipfile.ZipFile(file, "w", rng.choice((0, 8, 12, 14))) as archive:
        for name, content in parts.items():
            place = rng.choice(("SET/", "", "../", "/", "a/b/", "C:\\", "SET/\0"))
            archive.writestr((place if rng.random() < 0.2 else "SET/") + name, content)
    return {"SET.zip": file.getvalue()}


def _splits(folder: Path) -> Any:
    return load_splits(folder / "s.json", graphs=12)


def _whole_splits(found: Any) -> None:
    for split in found:
        every = np.concatenate(split)
        if len(set(every.tolist())) != len(every) or not ((every >= 0) & (every < 12)).all():
            raise Broken("a split with a graph twice, or one that is not there")


def data_targets() -> list[Target]:
    """All of them."""
    made = [
        Target(
            "CSV",
            [{"t.csv": seeds.csv_text()}, {"t.csv": seeds.csv_text(";")}],
            reading("t.csv", target="kind"),
            whole,
            words=SMILES_WORDS,
        ),
        Target(
            "CSV, columns found",
            [{"t.csv": seeds.quoted_csv()}],
            reading("t.csv"),
            whole,
            words=SMILES_WORDS,
        ),
        Target(
            "TSV",
            [{"t.tsv": seeds.csv_text("\t")}],
            reading("t.tsv", target="logS"),
            whole,
            words=SMILES_WORDS,
        ),
        Target(
            "CSV, compressed",
            [{"t.csv.gz": seeds.packed_csv()}],
            reading("t.csv.gz", target="kind"),
            whole,
        ),
        Target(
            "SMILES lists", [{"t.smi": seeds.smi()}], reading("t.smi"), whole, words=SMILES_WORDS
        ),
        Target(
            "SDF",
            [{"t.sdf": seeds.sdf()}],
            reading("t.sdf"),
            whole,
            words=(b"$$$$\n", b"M  END", b"> <target>", b"V3000"),
        ),
        Target(
            "Parquet",
            [
                {"t.parquet": seeds.parquet()},
                {"t.parquet": seeds.parquet(compression=None, use_dictionary=False)},
            ],
            reading("t.parquet", target="target"),
            whole,
            words=(b"PAR1",),
        ),
        Target(
            "TU text",
            [seeds.tu()],
            reading(features="structure+labels+attributes"),
            whole,
            words=(b"1, 2\n",),
        ),
        Target(
            "TU zip",
            [
                {"SET.zip": seeds.tu_zip(method)}
                for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)
            ],
            reading("SET.zip"),
            whole,
            _zipped,
        ),
        Target("GraphML", [seeds.graphs(".graphml")], reading(), whole, words=XML_WORDS),
        Target("GML", [seeds.graphs(".gml")], reading(), whole, words=GML_WORDS),
        Target(
            "node-link JSON",
            [seeds.graphs(".json")],
            reading(),
            whole,
            words=(b'"id":', b'"source":', b"null"),
        ),
        Target(
            "edge lists",
            [seeds.graphs(".edgelist")],
            reading(),
            whole,
            words=(b"{'weight': 2}", b"source,target\n"),
        ),
        Target(
            "label tables, Parquet", [seeds.labels_parquet()], reading(), whole, words=(b"PAR1",)
        ),
        Target("PDB", [seeds.pdb()], reading(), whole, words=PDB_WORDS),
        Target("mmCIF", [seeds.cif()], reading(), whole, words=CIF_WORDS),
        Target(
            "structures, npz",
            [seeds.structures_npz(np.savez), seeds.structures_npz(np.savez_compressed)],
            lambda folder: _coordinates(folder / "some.npz", "n_res"),
            words=(b"\x93NUMPY", b"'descr': '|O'", b"(1000000000000,)"),
        ),
        Target(
            "splits",
            [seeds.splits(), seeds.plain_splits()],
            _splits,
            _whole_splits,
            words=(b'"train": [', b"1e5"),
        ),
    ]
    return made
