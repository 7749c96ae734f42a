"""Splits by scaffold: molecules with the same ring system stay together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legs.data.errors import DataError
from legs.data.folds import PARTS, USUAL_FRACTIONS, Fractions, Split, group_numbers, part_sizes


def scaffold_split(
    smiles: Sequence[str], fractions: Fractions = USUAL_FRACTIONS, seed: int | None = None
) -> Split:
    """A split in which no Bemis–Murcko scaffold is in two parts.

    Scaffolds go one after another into training if there is room, else into validation if there is
    room, else into test.

    * Without a seed: by falling number of molecules (ties: by first appearance). Validation and
      test hold rare scaffolds; this is the harder split and the usual one.
    * With a seed: only scaffolds larger than half the validation or test set come first, by falling
      number; all others in random order. Parts are more alike, and seeds give different splits.

    Molecules without rings share the empty scaffold.

    Args:
        smiles: one a molecule.
        fractions: of training, validation and test (default 0.8, 0.1, 0.1), met as well as the
            scaffolds allow.
        seed: default ``None``.

    >>> split = scaffold_split(["c1ccccc1O", "c1ccccc1N", "CCO", "C1CC1"], (0.5, 0.25, 0.25))
    >>> split.train, split.validation, split.test
    (array([0, 1]), array([2]), array([3]))
    """
    number, sizes = group_numbers(scaffolds(smiles))
    wanted = part_sizes(len(smiles), fractions)
    order = np.argsort(-sizes, kind="stable")
    if seed is not None:
        large = sizes[order] > wanted[1:].min() / 2
        small = np.random.default_rng(seed).permutation(order[~large])
        order = np.concatenate([order[large], small])
    part = np.empty(len(sizes), dtype=np.int64)
    filled = [0, 0, 0]
    for scaffold in order:
        fits = [i for i in (0, 1) if filled[i] + sizes[scaffold] <= wanted[i]]
        part[scaffold] = fits[0] if fits else 2
        filled[part[scaffold]] += int(sizes[scaffold])
    if min(filled) == 0:
        raise DataError(
            f"the {PARTS[filled.index(0)]} part is empty: {len(smiles)} molecules have only "
            f"{len(sizes)} scaffolds, the largest with {sizes.max()}; use a random split"
        )
    return Split(*(np.flatnonzero(part[number] == i) for i in range(3)))


def scaffolds(smiles: Sequence[str]) -> list[str]:
    """Bemis–Murcko scaffolds as SMILES, without stereochemistry; empty for molecules without rings.

    >>> scaffolds(["CC(=O)Oc1ccccc1C(=O)O", "CCO"])
    ['c1ccccc1', '']
    """
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem.Scaffolds import MurckoScaffold
    except ImportError as error:
        raise DataError("scaffolds need RDKit: pip install 'torch-legs[chem]'") from error
    found = []
    with rdBase.BlockLogs():
        for i, text in enumerate(smiles):
            mol = Chem.MolFromSmiles(text)
            if mol is None:
                raise DataError(f"molecule {i}: not a SMILES string: {text[:80]!r}")
            found.append(str(MurckoScaffold.MurckoScaffoldSmiles(mol=mol)))
    return found
