"""The named data sets: what they are, where they are found, under which licence."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Literal, NamedTuple

from legs.data.catalog import fetch
from legs.data.errors import DataError

TU_ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets/{}.zip"
_TU_LICENCE = "none stated (TUDataset)"
_ZINC = "ZINC15: free to use, not to redistribute"

Kind = Literal["graphs", "molecules", "structures"]


class Spec(NamedTuple):
    """A data set known by name.

    ``places`` lists where its reader looks, in that order: each place is all the files needed
    there, below the data folder or the cache, or, after ``package:``, inside an installed package.
    """

    name: str
    kind: Kind
    graphs: int | None  # None: not known before it is there
    reader: str  # see legs.data.catalog.resolve
    places: tuple[tuple[str, ...], ...]
    argument: str | None = None  # of the reader
    licence: str = _TU_LICENCE
    note: str = ""
    url: str | None = None


def tu(name: str, graphs: int | None = None) -> Spec:
    """A set of the TUDataset collection."""
    places = ((f"tu/{name}.zip",),)
    return Spec(name, "graphs", graphs, "tu", places, url=TU_ADDRESS.format(name))


def _zinc(tranche: str, graphs: int, note: str, licence: str = _ZINC) -> Spec:
    return Spec(
        f"zinc-{tranche.lower()}",
        "molecules",
        graphs,
        "zinc",
        ((f"zinc/{tranche}.smi",), ("zinc/zinc_tranches.parquet",)),
        tranche,
        licence,
        note,
        f"https://files.docking.org/2D/{tranche[:2]}/{tranche}.smi",
    )


def _ki(target: str, protein: str) -> Spec:
    return Spec(
        f"ki-{target.lower()}",
        "molecules",
        3000,
        "ki",
        (("ki/ki_P00918_P14416.parquet",),),
        target,
        "ChEMBL: CC BY-SA 3.0",
        f"{protein}; ChEMBL for the paper's BindingDB",
    )


NAMED: dict[str, Spec] = {
    known.name: known
    for known in (
        tu("DD", 1178),
        tu("ENZYMES", 600),
        tu("MUTAG", 188),
        tu("NCI1", 4110),
        tu("NCI109", 4127),
        tu("PROTEINS", 1113),
        tu("PTC_MR", 344),
        tu("COLLAB", 5000),
        tu("IMDB-BINARY", 1000),
        tu("IMDB-MULTI", 1500),
        tu("REDDIT-BINARY", 2000),
        tu("REDDIT-MULTI-5K", 4999),
        tu("REDDIT-MULTI-12K", 11929),
        Spec(
            "qm9",
            "molecules",
            130831,
            "qm9",
            (
                ("qm9/qm9.parquet",),
                tuple(f"qm9pack:data/qm9_part{i}.csv" for i in (1, 2, 3)),
                ("qm9/qm9.csv", "qm9/uncharacterized.txt"),
            ),
            licence="MIT (qm9pack); cite Ramakrishnan et al. 2014",
            note="19 targets; also in the package qm9pack",
            url="https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/qm9.csv",
        ),
        _zinc("BBAB", 2500, "drawn from the whole tranche of 13,450"),
        _zinc("FBAB", 2500, "those of the paper", "non-commercial (authors' list)"),
        _zinc("JBCD", 124, "the first of about 4,500; zinc-jbab stands in"),
        _zinc("JBAB", 1859, "weight and logP of JBCD, for which it stands in"),
        _ki("P00918", "carbonic anhydrase 2"),
        _ki("P14416", "dopamine receptor D2"),
        Spec(
            "casp12",
            "structures",
            None,
            "casp12",
            (("structures/casp12",),),
            licence="see predictioncenter.org",
            note="no download by name; rna-puzzles stands in",
        ),
        Spec(
            "rna-puzzles",
            "structures",
            1192,
            "rna-puzzles",
            (
                (
                    "structures/rna_puzzles_models.parquet",
                    "structures/rna_puzzles_c4_xyz_centiangstrom.npz",
                ),
            ),
            licence="none stated; cite Magnus et al. 2020",
            note="blind predictions of 23 RNAs; stands in for CASP12",
        ),
        Spec(
            "protein-decoys",
            "structures",
            4008,
            "protein-decoys",
            (
                (
                    "structures/protein_decoys_synthetic.parquet",
                    "structures/protein_decoys_synthetic_ca_centiangstrom.npz",
                ),
            ),
            licence="from PDB structures (CC0)",
            note="SYNTHETIC decoys of 12 proteins, nobody's predictions",
        ),
        Spec(
            "nci-5k",
            "molecules",
            4991,
            "nci5k",
            (("rdkit:Data/NCI/first_5K.smi",),),
            licence="inside RDKit (BSD-3-Clause)",
            note="real compounds, no download: pip install torch-legs[chem]",
        ),
    )
}

ALIASES = {
    "d&d": "DD",
    "ptc": "PTC_MR",
    "imdb-b": "IMDB-BINARY",
    "imdb-m": "IMDB-MULTI",
    "reddit-b": "REDDIT-BINARY",
    "reddit-5k": "REDDIT-MULTI-5K",
    "reddit-m5k": "REDDIT-MULTI-5K",
    "reddit-12k": "REDDIT-MULTI-12K",
    "reddit-m12k": "REDDIT-MULTI-12K",
    "nci5k": "nci-5k",
}

# The rest of the TUDataset collection, to set case right and to guess what a typo means; a name
# that is missing here is tried all the same.
_COLLECTION = """
AIDS alchemy_full aspirin benzene BZR BZR_MD COX2 COX2_MD DHFR DHFR_MD ER_MD ethanol FRANKENSTEIN
malonaldehyde MCF-7 MCF-7H MOLT-4 MOLT-4H Mutagenicity naphthalene NCI-H23 NCI-H23H OVCAR-8
OVCAR-8H P388 P388H PC-3 PC-3H PTC_FM PTC_FR PTC_MM salicylic_acid SF-295 SF-295H SN12C SN12CH
SW-620 SW-620H toluene UACC257 UACC257H uracil Yeast YeastH ZINC_full ZINC_test ZINC_train ZINC_val
KKI OHSU Peking_1 PROTEINS_full COIL-DEL COIL-RAG Cuneiform Fingerprint FIRSTMM_DB Letter-high
Letter-low Letter-med MSRC_9 MSRC_21 MSRC_21C dblp_ct1 dblp_ct2 DBLP_v1 deezer_ego_nets
facebook_ct1 facebook_ct2 github_stargazers highschool_ct1 highschool_ct2 infectious_ct1
infectious_ct2 mit_ct1 mit_ct2 reddit_threads tumblr_ct1 tumblr_ct2 twitch_egos
TWITTER-Real-Graph-Partial COLORS-3 SYNTHETIC SYNTHETICnew Synthie TRIANGLES
"""
COLLECTION = tuple(_COLLECTION.split())


PUBLISHED = {
    "tu/AIDS.zip": "ef65a8095846588ffd6e17f95c1968a247d8ada7295a61209c401bda23d19ab9",
    "tu/BZR.zip": "584cb76f63cf5d0459cabfa254603b4e89823de0c03c96d60ab338f2d71a8b55",
    "tu/BZR_MD.zip": "f2ae267e19de998358bddeb20517768380ffb0594c594becbbd11aed538014d6",
    "tu/COIL-DEL.zip": "4dbaf79fc1d1b6fc90911b15faa086af0b5f2ce4600ecd93403af95a34e6e3e8",
    "tu/COIL-RAG.zip": "47f8be52a845c414299a4c9e6346acc074c5438fc12fe90b7d8da5c4613f667f",
    "tu/COLLAB.zip": "cb5b772bc4f3a4690d0601378a3fc993b092aeafd63e2b0f2330137dda1cdcc6",
    "tu/COLORS-3.zip": "380d8f9e03c73455a2b280f859b136c53c80544eabd83c801a9b5c97d7830bfc",
    "tu/DBLP_v1.zip": "67d8a383e8920e9f9e6d8afd55df4104619252f2d08772ee08ad8a76e57b547a",
    "tu/DD.zip": "d033d7aeb1a48c4b2b47cf0390e7fc9671de70d98c8df5b11e458d2ec5515cd2",
    "tu/ENZYMES.zip": "13d832eb6ffa084192daf6e5750250028a18437ee692c38d29a10cd60e18aaf4",
    "tu/MUTAG.zip": "c419bdc853c367d2d83da4973c45100954ae15e10f5ae2cddde6ca431f8207f6",
    "tu/Mutagenicity.zip": "6230f94ba246b76834fb51ffa138370477b7bf8a784ade92c5e0586780d2ae0e",
    "tu/NCI1.zip": "10e1458f3bd9224f14e6d7627e74dcfd13e48d376d73935e7bd2900590ef1d82",
    "tu/NCI109.zip": "96e521a294e3e9c088540e9e9caccf55e4ca6e97cf468d68445814467956abaf",
    "tu/PTC_FM.zip": "a06c80761db8ffd739a171f0d90cfa1f4dc965e1ea716ee5a25cc6cf5f4ae682",
    "tu/PTC_FR.zip": "c4b0083af725aaff27b41228591294922968bd5509179d24c6ea4d3996ed6072",
    "tu/PTC_MM.zip": "3846d6697330a446d46a1274b8708fcc153acdbcf59f649871bc0844bb012e4f",
    "tu/PTC_MR.zip": "5699a6d9f1bc5b3d71495f09ef50de53fa3e6bb24ead1150da678500229f5237",
    "tu/REDDIT-BINARY.zip": "982dc64ddade42a6365ba9c93f5080d0b9d315df0df492b57fd9fbb7e40dbe16",
    "tu/SYNTHETIC.zip": "3c0344e0cd6518d8b3f52bf45d152b1a9a007a523f5e91fc2bda929cc353c84d",
    "tu/SYNTHETICnew.zip": "07e27d6ff1c25d036df5bf3593b1bf4676f51e656eb982e903dea4718634ed5e",
    "tu/Synthie.zip": "c5bada5ffe42b4a901d50e75f10c3f969fb962f94acaab0265f46097496154d5",
    "tu/TRIANGLES.zip": "d14094eecf75fd60cf08b9d18d33a7e8c7657ff07e554956f0230fba9bf63b60",
    "tu/aspirin.zip": "b01b6b73841768670a3a79d04e04a79bb6027ee87a335b4cd3e073fbf6523fb4",
    "tu/benzene.zip": "d82d921cb20453b12c3e288d7b25e46d5a6c60052e8e276558078fb31e3503f1",
}


Origin = Literal["LEGS_DATA", "cache", "package", "download", "by hand"]


class Available(NamedTuple):
    """A data set, and where it was found or comes from."""

    name: str
    kind: Kind
    graphs: int | None
    origin: Origin
    where: str  # path, address, or what to do
    size: int | None  # bytes on disk
    licence: str
    note: str


def lookup(name: str) -> Spec | None:
    """A set of :data:`NAMED` by its name or a short form of it, in any case; ``None`` if unknown.

    >>> lookup("ptc").name, lookup("imdb-b").name, lookup("QM9").name
    ('PTC_MR', 'IMDB-BINARY', 'qm9')
    """
    folded = _folded(name)
    names = {_folded(known): known for known in NAMED}
    return NAMED.get(names.get(folded) or ALIASES.get(folded, ""))


def lookup_tu(name: str) -> Spec:
    """Any set of the TUDataset collection by its name; those listed here in any case.

    Raises:
        DataError: no set can have that name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or len(name) > 100:
        raise DataError(f"there is no data set {name!r}.{suggestion(name)}")
    spelled = {_folded(known): known for known in (*COLLECTION, *_local())}
    return tu(spelled.get(_folded(name), name))


def suggestion(name: str) -> str:
    """A sentence that suggests a set of a similar name, after a space; else empty.

    >>> suggestion("MUTGA")
    ' Did you mean MUTAG?'
    """
    names = {_folded(n): n for n in (*COLLECTION, *ALIASES, *_local(), *NAMED)}
    near = difflib.get_close_matches(_folded(name), names, n=1, cutoff=0.6)
    return f" Did you mean {names[near[0]]}?" if near else ""


def locate(known: Spec) -> tuple[Origin, list[Path]] | None:
    """The files of a set where they are to be had without a download, or ``None``."""
    for place in known.places:
        found = [_find(file) for file in place]
        paths = [path for path in found if path is not None]
        if len(paths) == len(place):
            return _origin(place[0], paths[0]), paths
    return None


def _find(file: str) -> Path | None:
    package, colon, inside = file.partition(":")
    return fetch.find_in_package(package, inside) if colon else fetch.find(file)


def _origin(file: str, path: Path) -> Origin:
    if ":" in file:
        return "package"
    return "cache" if path.is_relative_to(fetch.cache_dir()) else "LEGS_DATA"


def available() -> list[Available]:
    """All sets known by name, and sets in TUDataset's layout lying in the data folder or cache.

    >>> [each.origin for each in available() if each.name == "nci-5k"]
    ['package']
    """
    others = [tu(name) for name in _local() if lookup(name) is None]
    return [_describe(known) for known in (*NAMED.values(), *others)]


def _describe(known: Spec) -> Available:
    place = locate(known)
    origin: Origin
    size = None
    package, colon, _ = known.places[0][0].partition(":")
    if place is not None:
        origin, paths = place
        where = str(paths[0])
        size = sum(_size(path) for path in paths)
    elif known.url is not None:
        origin, where = "download", known.url
    elif colon:
        origin, where = "package", f"install {package}"
    else:
        origin, where = "by hand", f"set {fetch.VARIABLE} to a folder with {known.places[0][0]}"
    return Available(
        known.name, known.kind, known.graphs, origin, where, size, known.licence, known.note
    )


def _local() -> list[str]:
    """Names of the sets in ``tu/`` of the data folder and the cache."""
    folders = [folder for folder in (fetch.data_dir(), fetch.cache_dir()) if folder]
    return sorted({path.stem for folder in folders for path in folder.glob("tu/*.zip")})


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-")
