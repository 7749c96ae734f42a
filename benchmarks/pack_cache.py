"""Packs data sets for a machine without RDKit and without the raw files.

``python -m benchmarks.pack_cache FOLDER`` writes ``FOLDER/packed/NAME.npz`` for the sets of the
regression studies (or those named after it); there, ``LEGS_DATA=FOLDER legs reproduce qm9`` and the
others find them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from legs.data import load
from legs.experiments import affinity, qm9, structures, zinc
from legs.experiments.packed import FOLDER, pack

# Seeds of the splits by scaffold: those of --seed 0, 1 and 2.
SCAFFOLD_SEEDS = range(12)
SETS = {
    **dict.fromkeys(qm9.SETS, qm9.FEATURES),
    **dict.fromkeys(zinc.SETS, zinc.FEATURES),
    **dict.fromkeys(affinity.SETS, affinity.FEATURES),
    **{name: structures.FEATURES for name in structures.SETS if name != structures.CASP12},
}


def main(folder: str, *names: str) -> None:
    """Packs the sets, and says how large they are."""
    for name in names or SETS:
        data = load(name, features=SETS[name])
        seeds = SCAFFOLD_SEEDS if name in affinity.SETS else ()
        path = pack(data, Path(folder) / FOLDER / f"{name}.npz", seeds)
        print(f"{path}: {len(data):,} graphs, {path.stat().st_size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
