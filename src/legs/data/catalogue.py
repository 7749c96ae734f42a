"""The data sets known by name: what they are, what they consist of, what may be done with them."""

from __future__ import annotations

from typing import Literal, NamedTuple

TU_ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets/{}.zip"
_TU_LICENCE = "none stated (TUDataset)"
_ZINC = "ZINC15: free to use, not to redistribute"

Kind = Literal["graphs", "molecules", "structures"]


class Known(NamedTuple):
    """A data set known by name.

    ``places`` lists where its reader looks, in that order: each place is all the files needed
    there, below the data folder or the cache, or, after ``package:``, inside an installed package.
    """

    name: str
    kind: Kind
    graphs: int | None  # None: not known before it is there
    reader: str  # module of legs.data and function
    places: tuple[tuple[str, ...], ...]
    argument: str | None = None  # of the reader
    licence: str = _TU_LICENCE
    note: str = ""
    url: str | None = None


def tu(name: str, graphs: int | None = None) -> Known:
    """A set of the TUDataset collection."""
    places = ((f"tu/{name}.zip",),)
    return Known(name, "graphs", graphs, "tu.read_tu", places, url=TU_ADDRESS.format(name))


def _zinc(tranche: str, graphs: int, note: str, licence: str = _ZINC) -> Known:
    return Known(
        f"zinc-{tranche.lower()}",
        "molecules",
        graphs,
        "molecules_sets.read_zinc",
        ((f"zinc/{tranche}.smi",), ("zinc/zinc_tranches.parquet",)),
        tranche,
        licence,
        note,
        f"https://files.docking.org/2D/{tranche[:2]}/{tranche}.smi",
    )


def _ki(target: str, protein: str) -> Known:
    return Known(
        f"ki-{target.lower()}",
        "molecules",
        3000,
        "molecules_sets.read_ki",
        (("ki/ki_P00918_P14416.parquet",),),
        target,
        "ChEMBL: CC BY-SA 3.0",
        f"{protein}; ChEMBL for the paper's BindingDB",
    )


NAMED: dict[str, Known] = {
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
        Known(
            "qm9",
            "molecules",
            130831,
            "molecules_sets.read_qm9",
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
        Known(
            "casp12",
            "structures",
            None,
            "structures_sets.read_casp12",
            (("structures/casp12",),),
            licence="see predictioncenter.org",
            note="no download by name; rna-puzzles stands in",
        ),
        Known(
            "rna-puzzles",
            "structures",
            1192,
            "structures_sets.read_rna_puzzles",
            (
                (
                    "structures/rna_puzzles_models.parquet",
                    "structures/rna_puzzles_c4_xyz_centiangstrom.npz",
                ),
            ),
            licence="none stated; cite Magnus et al. 2020",
            note="blind predictions of 23 RNAs; stands in for CASP12",
        ),
        Known(
            "protein-decoys",
            "structures",
            4008,
            "structures_sets.read_protein_decoys",
            (
                (
                    "structures/protein_decoys_synthetic.parquet",
                    "structures/protein_decoys_synthetic_ca_centiangstrom.npz",
                ),
            ),
            licence="from PDB structures (CC0)",
            note="SYNTHETIC decoys of 12 proteins, nobody's predictions",
        ),
        Known(
            "nci-5k",
            "molecules",
            4991,
            "molecules_sets.read_nci5k",
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
