"""All parsers that are fuzzed."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from tests.fuzz.target import Target

TABLES = ("CSV", "CSV, columns found", "CSV, compressed", "TSV", "SMILES lists", "SDF", "Parquet")
STRUCTURES = ("PDB", "mmCIF")
GRAPHS = ("TU text", "TU zip", "GraphML", "GML", "node-link JSON", "edge lists")
PACKED = ("Parquet dictionaries", "compressed members, TU", "compressed members, arrays")
OTHERS = ("label tables, Parquet", "structures, npz", "splits", "settings on the command line")
# Each also with other values under a right checksum.
SEALED = (
    "networks",
    "models",
    "checkpoints",
    "cross-validations",
    "results of reproduce",
    "prepared sets",
    "results of runs",
    "legs report of runs",
    "legs report of cross-validations",
    "legs embed, resumed",
)
RUNS = (
    "run directories",
    "records of runs",
    "packed sets",
    *SEALED,
    *(f"{name}, right checksums" for name in SEALED),
)
NAMES = (*TABLES, *STRUCTURES, *GRAPHS, *PACKED, *OTHERS, *RUNS)


@cache
def all_targets() -> tuple[Target, ...]:
    """Those whose packages are installed."""
    from tests.fuzz.targets_data import data_targets
    from tests.fuzz.targets_packed import packed_targets
    from tests.fuzz.targets_reports import report_targets
    from tests.fuzz.targets_runs import run_targets
    from tests.fuzz.targets_settings import settings_targets

    needs = {"rdkit": TABLES, "biotite": STRUCTURES}
    missing = {name for package in needs if not find_spec(package) for name in needs[package]}
    made = (
        *data_targets(),
        *packed_targets(),
        *run_targets(),
        *report_targets(),
        *settings_targets(),
    )
    return tuple(target for target in made if target.name not in missing)
