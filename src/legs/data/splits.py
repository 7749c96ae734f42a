"""Which graphs train, validate and test: the same seed gives the same split on every machine.

A model that trains on a structure also trains on its duplicates: a test set that holds them scores
too well. Splits keep such groups of graphs in one part.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, DataWarning, require
from legs.data.features.atom_table import largest_fragment
from legs.data.merge import graph_hashes
from legs.io import digest_of, parse_json, write_atomically

Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Fractions: TypeAlias = tuple[float, float, float]
GroupBy: TypeAlias = Literal["auto", "structure"] | Sequence[Any] | Indices | None

PARTS = ("train", "validation", "test")
KEY = "sha256"  # of a split in a file
USUAL_FRACTIONS: Fractions = (0.8, 0.1, 0.1)


class Split(NamedTuple):
    """Numbers of the graphs for training, validation and testing; each sorted, int64."""

    train: Indices
    validation: Indices
    test: Indices


def part_sizes(n: int, fractions: Fractions = USUAL_FRACTIONS) -> Indices:
    """How many of ``n`` graphs train, validate and test; rounded in favour of the last two."""
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.shape != (3,) or not (shares > 0).all() or not np.isclose(shares.sum(), 1):
        raise DataError(f"fractions are three positive numbers that add up to 1; got {fractions}")
    validation, test = (int(np.ceil(share * n - 1e-9)) for share in shares[1:])
    sizes = np.array([n - validation - test, validation, test], dtype=np.int64)
    if sizes.min() < 1:
        raise DataError(f"{n} graphs are too few to split by {tuple(fractions)}")
    return sizes


def stratified_folds(y: ArrayLike, k: int = 10, seed: int = 0) -> list[Indices]:
    """``k`` parts, in each of which every class of ``y`` has its share, to within one graph."""
    classes = np.asarray(y)
    if classes.ndim != 1:
        raise DataError(f"stratifying needs one class per graph; got shape {classes.shape}")
    if classes.dtype.kind == "f" and not (classes == np.round(classes)).all():
        raise DataError("these targets are continuous, not classes; split at random instead")
    _check_parts(k, len(classes))
    _, number = np.unique(classes, return_inverse=True)
    # Class after class, at random within each, dealt out like cards.
    order = np.lexsort((np.random.default_rng(seed).random(len(number)), number))
    return [np.sort(order[i::k]) for i in range(k)]


def balanced_group_folds(
    groups: Sequence[Any] | Indices,
    shares: ArrayLike,
    y: ArrayLike | None = None,
    seed: int = 0,
) -> list[Indices]:
    """Parts of given shares that keep groups whole and have every class in proportion.

    Groups come by falling size, those of about the same size at random, each into the part that
    is then nearest to its share of graphs and of every class (``y``). No part is left empty; with
    fewer groups than parts, groups are ignored.
    """
    share = np.asarray(shares, dtype=np.float64)
    number, sizes = group_numbers(groups)
    if len(sizes) < len(share):
        number, sizes = group_numbers(range(len(number)))
    _check_parts(len(share), len(sizes))
    classes = np.unique(np.zeros(len(number)) if y is None else y, return_inverse=True)[1]
    counts = np.zeros((len(sizes), classes.max() + 2))
    np.add.at(counts, (number, classes), 1)
    counts[:, -1] = sizes
    wanted = share[:, None] * counts.sum(0)
    filled = np.zeros_like(wanted)
    part = np.empty(len(sizes), dtype=np.int64)
    noise = np.random.default_rng(seed).random(len(sizes))
    for done, group in enumerate(np.lexsort((noise, -np.frexp(sizes)[1]))):
        # The change of the chi-squared distance between the parts and their shares.
        cost = (counts[group] * (2 * (filled - wanted) + counts[group]) / wanted).sum(1)
        empty = filled[:, -1] == 0
        if len(sizes) - done == empty.sum():
            cost[~empty] = np.inf
        part[group] = np.argmin(cost)
        filled[part[group]] += counts[group]
    return [np.flatnonzero(part[number] == i) for i in range(len(share))]


def rotations(
    folds: Sequence[Indices], *, test_folds: int = 1, rotations: int | None = None
) -> list[list[Split]]:
    """The paper's protocol: every part is tested, and validation rotates over the others.

    The test set is ``test_folds`` consecutive parts, at each of the ``k`` starting positions. For
    each, one model per remaining part (or the first ``rotations`` of them): that part validates,
    the rest trains. Returns the splits of the models of every test set, which vote.
    """
    k = len(folds)
    left = k - test_folds
    if test_folds < 1 or left < 2:
        raise DataError(
            f"{test_folds} of {k} parts to test: at least one must be left to validate and one to "
            "train"
        )
    models = left if rotations is None else rotations
    if not 1 <= models <= left:
        raise DataError(f"there can be 1 to {left} rotations, not {models}")

    def split(start: int, held: int) -> Split:
        test, others = range(start, start + test_folds), range(start + test_folds, start + k)
        parts = [[i for i in others if i != others[held]], [others[held]], test]
        return Split(*(np.sort(np.concatenate([folds[i % k] for i in part])) for part in parts))

    return [[split(start, held) for held in range(models)] for start in range(k)]


def group_numbers(groups: Sequence[Any] | Indices) -> tuple[Indices, Indices]:
    """Number of every graph's group, by first appearance, and the sizes of the groups."""
    first: dict[Any, int] = {}
    numbers = np.array([first.setdefault(g, len(first)) for g in groups], dtype=np.int64)
    return numbers, np.bincount(numbers)


def _check_parts(k: int, graphs: int) -> None:
    if not 2 <= k <= graphs:
        raise DataError(f"{graphs} graphs cannot be split into {k} parts")


def random_split(n: int, fractions: Fractions = USUAL_FRACTIONS, seed: int = 0) -> Split:
    """Training, validation and test graphs at random."""
    sizes = part_sizes(n, fractions)
    order = np.random.default_rng(seed).permutation(n)
    return Split(*(np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1])))


def scaffold_split(
    smiles: Sequence[str],
    fractions: Fractions = USUAL_FRACTIONS,
    seed: int | None = None,
    y: ArrayLike | None = None,
) -> Split:
    """A split in which no Bemis–Murcko scaffold is in two parts.

    Scaffolds go one after another into training if they fit, else into validation if they fit, else
    into test. They come by falling number of molecules, so that validation and test hold rare ones,
    the harder and usual split; with a seed, all but the largest in random order. With classes
    ``y``, every part gets each class in proportion instead (:func:`balanced_group_folds`).
    """
    number, sizes = group_numbers(scaffolds(smiles))
    wanted = part_sizes(len(smiles), fractions)
    if y is not None:
        names = [f"the {name} part" for name in PARTS]
        return Split(*_balanced(number, wanted / len(smiles), y, seed or 0, names))
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


def scaffold_folds(
    smiles: Sequence[str], k: int = 10, seed: int = 0, y: ArrayLike | None = None
) -> list[Indices]:
    """``k`` parts of about the same size, classes ``y`` balanced, without common scaffolds."""
    number, _ = group_numbers(scaffolds(smiles))
    return _balanced(number, np.full(k, 1 / k), y, seed, [f"fold {i + 1} of {k}" for i in range(k)])


def _balanced(
    scaffold: Indices, shares: ArrayLike, y: ArrayLike | None, seed: int, names: Sequence[str]
) -> list[Indices]:
    count = len(np.unique(scaffold))
    if count < len(names):
        raise DataError(
            f"{len(scaffold)} molecules have only {count} scaffolds, fewer than the {len(names)} "
            "parts of the split; use a random split"
        )
    parts = balanced_group_folds(scaffold, shares, y, seed)
    classes = np.zeros(1) if y is None else np.asarray(y)
    for name, part in zip(names, parts, strict=True):
        if len(np.unique(classes)) > 1 and len(np.unique(classes[part])) < 2:
            raise DataError(
                f"{name} has one class only, {classes[part[0]]}: its scaffolds do not mix classes; "
                "use another seed or a random split"
            )
    return parts


def scaffolds(smiles: Sequence[str]) -> list[str]:
    """Bemis–Murcko scaffolds as SMILES, without stereochemistry; empty without rings."""
    require("scaffolds need RDKit: pip install 'torch-legs[chem]'", "rdkit")
    from rdkit import Chem, rdBase
    from rdkit.Chem.Scaffolds import MurckoScaffold

    rings = []
    with rdBase.BlockLogs():
        for i, text in enumerate(smiles):
            mol = Chem.MolFromSmiles(text)
            if mol is None:
                raise DataError(f"molecule {i}: not a SMILES string: {text[:80]!r}")
            rings.append(str(MurckoScaffold.MurckoScaffoldSmiles(mol=mol)))
    return rings


def save_splits(path: str | PathLike[str], splits: Sequence[Split]) -> None:
    """Writes splits, each with its checksum; an existing file is replaced atomically."""
    check_splits(splits)
    rows = [{part: getattr(split, part).tolist() for part in PARTS} for split in splits]
    checksummed = [{**row, KEY: digest_of(row)} for row in rows]
    write_atomically(Path(path), (json.dumps(checksummed) + "\n").encode())


def load_splits(path: str | PathLike[str], graphs: int | None = None) -> list[Split]:
    """Reads splits and checks them, also against the number of graphs where it is known."""
    try:
        rows = parse_json(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{path}: not a JSON file ({error})") from error
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{path}: not a list of splits")
    splits = [_parse(row, f"{path}: split {i}") for i, row in enumerate(rows)]
    check_splits(splits, graphs, where=f"{path}: ")
    return splits


def check_splits(splits: Sequence[Split], graphs: int | None = None, where: str = "") -> None:
    """Every part of every split has graphs, none twice, none in two parts, none out of range."""
    if not splits:
        raise DataError(f"{where}there are no splits")
    for i, split in enumerate(splits):
        name, most = f"{where}split {i}", np.inf if graphs is None else graphs
        for part, members in zip(PARTS, split, strict=True):
            if members.size == 0:
                raise DataError(f"{name}: {part} is empty")
            for outside in members[(members < 0) | (members >= most)]:
                suffix = "" if graphs is None else f"; there are {graphs} graphs"
                raise DataError(f"{name}: {part} names graph {outside}{suffix}")
            values, count = np.unique(members, return_counts=True)
            for twice in values[count > 1]:
                raise DataError(f"{name}: {part} names graph {twice} twice")
        for (a, one), (b, other) in combinations(zip(PARTS, split, strict=True), 2):
            for shared in np.intersect1d(one, other):
                raise DataError(f"{name}: graph {shared} is in {a} and in {b}")


def _parse(row: Any, where: str) -> Split:
    if not isinstance(row, dict) or {*row} - {KEY} != set(PARTS):
        raise DataError(f"{where} is not an object with {', '.join(PARTS)}")
    for part in PARTS:
        good = isinstance(row[part], list) and all(type(i) is int for i in row[part])
        if not good or any(abs(i) >= 2**63 for i in row[part]):
            raise DataError(f"{where}: {part} is not a list of graph numbers")
    # People write splits by hand as well, without a checksum.
    if KEY in row and row[KEY] != digest_of({part: row[part] for part in PARTS}):
        raise DataError(
            f"{where} is damaged: its checksum is wrong; if you changed it, remove {KEY}"
        )
    return Split(*(np.array(row[part], dtype=np.int64) for part in PARTS))


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
        return largest_fragment(mol)

    with rdBase.BlockLogs():
        unique = {text: canonical(text) for text in dict.fromkeys(smiles)}
    return [unique[text] for text in smiles]


def describe_groups(groups: Indices) -> str:
    """A line for people: how many groups there are."""
    return (
        f"{len(groups):,} rows, {len(np.unique(groups)):,} structures; rows of one structure stay "
        "in one part of a split"
    )


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
