"""Which column of a table holds the molecules, which names them, which could be meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from legs.data.columns import listed
from legs.data.errors import DataError
from legs.data.table_files import MOLECULE

_IDS = {"id", "ids", "identifier", "molid", "moleculeid", "compoundid", "chemblid", "zincid"}
_IDS |= {"moleculechemblid", "cid", "cas", "inchikey"}
_SAMPLE = 50  # values that tell whether a column holds SMILES
_SHARE = 0.9


def find_column(columns: Sequence[str], name: str, what: str) -> str:
    """A column by its name, or an error with the nearest name there is.

    >>> find_column(["smiles", "logS"], "logs", "target column")
    Traceback (most recent call last):
    ...
    legs.data.errors.DataError: there is no target column 'logs'; did you mean 'logS'? ...
    """
    found = [column for column in columns if column == name]
    if len(found) > 1:
        raise DataError(f"there are {len(found)} columns named {name!r}; rename all but one")
    if found:
        return name
    folded = {column.casefold(): column for column in columns}
    near = difflib.get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.5)
    guess = f"did you mean {folded[near[0]]!r}? " if near else ""
    raise DataError(f"there is no {what} {name!r}; {guess}There are: {listed(columns)}")


def smiles_column(columns: Sequence[str], sample: pd.DataFrame, asked: str | None = None) -> str:
    """The column of molecules: asked for, named like one, or made of SMILES.

    In this order: ``asked``; an SDF's molecules; the column named ``smiles`` (in any case); the
    only one whose name contains ``smiles``; the column of which nine in ten of the first fifty
    values are SMILES (of several, the one with the longest).

    Args:
        columns: of the table.
        sample: its first rows, all columns.
        asked: name of the column, or ``None``.
    """
    if asked is not None:
        return find_column(columns, asked, "SMILES column")
    if MOLECULE in columns:
        return MOLECULE
    exact = [name for name in columns if _folded(name) == "smiles"]
    alike = [name for name in columns if "smiles" in _folded(name)] + [
        name for name in columns if _folded(name) == "smi"
    ]
    for named in (exact, alike):
        if len(named) == 1:
            return named[0]
        if named:
            raise DataError(
                f"which column holds the molecules: {listed(named)}? Name it (smiles_column)"
            )
    lengths = {name: _smiles_length(sample, name) for name in dict.fromkeys(columns)}
    best = max(lengths, key=lambda name: lengths[name], default="")
    if not lengths.get(best):
        raise DataError(
            f"no column looks like SMILES; there are: {listed(columns)}. Name it (smiles_column)"
        )
    if _is_smiles(best):
        raise DataError(
            f"the first line looks like data ({best[:40]!r} is a SMILES string), not like names "
            "of columns; put a line of names above it"
        )
    return best


def id_column(columns: Sequence[str], asked: str | None = None) -> str | None:
    """The column of ids: asked for, or the first with a usual name; ``""`` asks for none."""
    if asked is not None:
        return find_column(columns, asked, "id column") if asked else None
    usual = [name for name in columns if _folded(name) in _IDS and columns.count(name) == 1]
    return usual[0] if usual else None


def _smiles_length(sample: pd.DataFrame, name: str) -> float:
    """Mean length of a column's SMILES, or 0 where it does not hold SMILES."""
    column: Any = sample[name]
    if isinstance(column, pd.DataFrame):  # two columns of one name
        return 0.0
    values = [v.strip() for v in column if isinstance(v, str) and v.strip()][:_SAMPLE]
    good = [len(value) for value in values if _is_smiles(value)]
    return sum(good) / len(good) if len(good) >= max(_SHARE * len(values), 1) else 0.0


def _is_smiles(text: str) -> bool:
    from legs.data.atom_table import read_molecules

    return bool(len(read_molecules([text]).kept))


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())
