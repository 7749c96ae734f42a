"""Rows of one structure, which every split keeps in one part.

A model that trains on a structure also trains on its duplicates: a test set that holds them scores
too well.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, DataWarning
from legs.data.merge import graph_hashes
from legs.data.splits import Indices, Split, group_numbers

GroupBy: TypeAlias = Literal["auto", "structure"] | Sequence[Any] | Indices | None


def find_groups(data: GraphDataset, group_by: GroupBy = "auto") -> Indices | None:
    """The group of every graph, or ``None`` where no two graphs share one.

    ``group_by="structure"``: duplicates are a group. For molecules, these have the same canonical
    SMILES of the largest fragment; other graphs have the same structure, node features and edge
    weights, whatever the order of the nodes (up to colour refinement). ``None``: no groups.
    ``"auto"``: no groups for a data set loaded by name, which has published partitions, else
    ``"structure"``. Or a label per graph.
    """
    if group_by is None:
        return None
    if isinstance(group_by, str):
        if group_by not in ("auto", "structure"):
            raise DataError(f"group_by is 'auto', 'structure', None or labels; got {group_by!r}")
        if group_by == "auto" and data.info.get("named"):
            return None
        labels: Sequence[Any] = canonical_smiles(data.smiles) or graph_hashes(data).tolist()
    else:
        labels = np.asarray(group_by).tolist()
        if len(labels) != len(data):
            raise DataError(f"group_by has {len(labels)} labels for {len(data)} graphs")
    number, sizes = group_numbers(labels)
    return number if len(sizes) < len(number) else None


def canonical_smiles(smiles: Sequence[str]) -> list[str]:
    """Canonical SMILES of the largest fragments, or the text itself; nothing without RDKit."""
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        return []

    def canonical(text: str) -> str:
        mol = Chem.MolFromSmiles(text)
        if mol is None or "." not in (whole := str(Chem.MolToSmiles(mol))):
            return text if mol is None else whole
        fragments = Chem.GetMolFrags(mol, asMols=True, sanitizeFrags=False)
        return max((part.GetNumAtoms(), str(Chem.MolToSmiles(part))) for part in fragments)[1]

    with rdBase.BlockLogs():
        unique = {text: canonical(text) for text in dict.fromkeys(smiles)}
    return [unique[text] for text in smiles]


def describe_groups(groups: Indices) -> list[str]:
    """Lines for people: how many groups there are, and whether one of them is large."""
    sizes = np.bincount(groups)
    lines = [
        f"{len(groups):,} rows, {len(sizes):,} structures; rows of one structure stay in one part "
        "of a split"
    ]
    if sizes.max() * 10 > len(groups):
        lines.append(
            f"one structure has {sizes.max():,} of the {len(groups):,} rows, more than a tenth; "
            "parts may be uneven"
        )
    return lines


def warn_about_leaks(splits: Sequence[Split], groups: Indices | None, stacklevel: int = 3) -> None:
    """Warns about graphs whose structure is also in a part they are held out from."""
    if groups is None:
        return
    held_out = leaked = 0
    for split in splits:
        held_out += len(split.validation) + len(split.test)
        trained = groups[split.train]
        leaked += int(np.isin(groups[split.validation], trained).sum())
        fitted = np.concatenate([trained, groups[split.validation]])
        leaked += int(np.isin(groups[split.test], fitted).sum())
    if leaked:
        of = f" in {len(splits)} splits" if len(splits) > 1 else ""
        warnings.warn(
            f"{leaked:,} of {held_out:,} validation and test rows{of} have the same structure as a "
            "row that the model trains or stops on; their scores will be too good",
            DataWarning,
            stacklevel=stacklevel,
        )
