"""New files for a model: read as its training data was, every row kept in order."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from legs.data.catalog.resolve import Source, resolve
from legs.data.dataset import GraphDataset
from legs.data.errors import BadRows, DataError, DataWarning, OnError, listed
from legs.data.features.blocks import assemble
from legs.data.loading import load
from legs.data.readers.base import Rows
from legs.data.readers.tables import TableRows
from legs.data.validate import overflows
from legs.training.fit import fingerprint
from legs.training.predictor import not_finite, overflow_reason

if TYPE_CHECKING:
    import pandas as pd

    from legs.training.predictor import Predictor


@dataclass(frozen=True)
class Reading:
    """How files become graphs with the node features that a model reads.

    Args:
        features: blocks of node features (default: what suits the file).
        feature_names: what the node features must be called (default: anything).
        options: of the reader, such as ``hydrogens`` and ``smiles_column``.
        targets: columns that hold the truth, if they are there.
        asked: names of the options that a user chose: such a column must be there, while one that
            training had may be called otherwise in a new file.
    """

    features: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()

    @classmethod
    def of(cls, predictor: Predictor, **options: Any) -> Reading:
        """As a model's training data was read; ``options`` override it unless ``None``."""
        if not predictor.features:
            raise DataError(
                "the model was trained on graphs that were made in Python; what its node features "
                "are in a file is not known"
            )
        noted = dict(predictor.input)
        targets = tuple(noted.pop("targets", ()))
        asked = {name: value for name, value in options.items() if value is not None}
        return cls(
            predictor.features, predictor.feature_names, {**noted, **asked}, targets, tuple(asked)
        )


@dataclass(frozen=True)
class InputPart:
    """Rows of an input in its order, including those that cannot be used.

    Args:
        ids: per row.
        smiles: per row, as written in the input; empty for graphs that are not molecules.
        errors: why a row cannot be used, or ``""``.
        data: the graphs of the other rows, or ``None`` if there are none.
        rows: the row of each graph.
        where: what messages call each row: a line of the file, a file of the folder.
        truth: target columns that the input has, a row per graph, or ``None``.
    """

    ids: list[str]
    smiles: list[str]
    errors: list[str]
    data: GraphDataset | None
    rows: list[int]
    where: list[str]
    truth: pd.DataFrame | None = None

    def bad(self) -> list[tuple[str, str]]:
        """Where the rows are that cannot be used, and why."""
        return [(w, why) for w, why in zip(self.where, self.errors, strict=True) if why]

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, graphs: list[int], rows: slice = slice(None)) -> InputPart:
        """Some rows, and the graphs at some positions, all of which lie in these rows."""
        start = rows.start or 0
        return replace(
            self,
            ids=self.ids[rows],
            smiles=self.smiles[rows],
            errors=self.errors[rows],
            data=None if self.data is None or not graphs else self.data.subset(graphs),
            rows=[self.rows[k] - start for k in graphs],
            where=self.where[rows],
            truth=None if self.truth is None else self.truth.iloc[graphs],
        )

    def pieces(self, size: int) -> Iterator[InputPart]:
        """The same rows in the same order, ``size`` at a time."""
        for start in range(0, len(self), size):
            graphs = [k for k, row in enumerate(self.rows) if start <= row < start + size]
            yield self.select(graphs, slice(start, start + size))

    def digest(self) -> str:
        """A digest of everything the result depends on."""
        graphs = "" if self.data is None else fingerprint(self.data)
        text = repr((graphs, self.ids, self.errors, self.rows))
        return hashlib.sha256(text.encode()).hexdigest()


Batch = TableRows | InputPart  # rows to be read, or that were read already


def iter_input(
    reading: Reading, path: str | Path, *, chunk: int | None = None, on_error: OnError = "raise"
) -> Iterator[InputPart]:
    """The rows of an input in order, in parts; tables of any length are never in memory whole.

    Args:
        reading: how to read it.
        path: a file, a folder or the name of a data set.
        chunk: rows in a part (default: all).
        on_error: ``"raise"`` (default) stops at the first bad row; ``"skip"`` continues.
    """
    batches = iter_batches(reading, path, chunk=chunk, on_error=on_error)
    return (read_batch(reading, batch) for batch in batches)


def iter_batches(
    reading: Reading, path: str | Path, *, chunk: int | None, on_error: OnError = "raise"
) -> Iterator[Batch]:
    """The same before the slow work on them, so that other processes can do it.

    The batches are the same whenever an input is read. Only tables of molecules are read in
    batches; everything else is read at once, and cut.
    """
    source = resolve(path)
    source.take(dict.fromkeys(reading.asked))
    options = {k: v for k, v in reading.options.items() if k in source.reader.options}
    if source.reader.iter_batches is None:
        yield from _cut(_named_set(reading, source, path, on_error, options), chunk)
        return
    for batch in source.reader.iter_batches(
        *source.arguments(),
        chunk=chunk,
        on_error=on_error,
        targets=reading.targets,
        asked=reading.asked,
        **options,
    ):
        if isinstance(batch, Rows):
            yield from _cut(_with_features(reading, batch), chunk)
        else:
            yield batch


def read_batch(reading: Reading, batch: Batch) -> InputPart:
    """The graphs of a batch, with the node features of the model."""
    return batch if isinstance(batch, InputPart) else _with_features(reading, batch.read())


def align(data: GraphDataset, wanted: Sequence[str]) -> GraphDataset:
    """The same graphs with the node features ``wanted``, in that order; any if it is empty.

    A one-hot column (``label=C``) that no graph has is a column of zeros. One that is not wanted is
    dropped with a :class:`~legs.data.errors.DataWarning` if others of its block are wanted: its
    nodes have no label then. Other differences are left for
    :meth:`legs.training.Predictor.check`.
    """
    names = data.feature_names
    blocks = {name.partition("=")[0] for name in wanted if "=" in name}
    unseen = [name for name in names if name not in wanted]
    changed = [name for name in wanted if name not in names] + unseen
    fits = all("=" in name and name.partition("=")[0] in blocks for name in changed)
    if names == tuple(wanted) or not fits or len(set(wanted)) < len(wanted):
        return data
    if unseen:
        counts = (data.x[:, [name in unseen for name in names]] != 0).sum(0).tolist()
        columns = [f"{n} ({c:,} node{'s' * (c != 1)})" for n, c in zip(unseen, counts, strict=True)]
        warnings.warn(
            f"{data.name}: {listed(columns)} did not occur in training; these nodes have no label "
            "for the model",
            DataWarning,
            stacklevel=2,
        )
    x = torch.zeros(data.num_nodes, len(wanted))
    here = [k for k, name in enumerate(names) if name in wanted]
    x[:, [list(wanted).index(names[k]) for k in here]] = data.x[:, here]
    return data.with_x(x, tuple(wanted))


def finite_part(
    part: InputPart, compute: Callable[[GraphDataset], Tensor], on_error: OnError
) -> tuple[InputPart, Tensor | None]:
    """Features or predictions for a part of an input; a row that overflows is a bad one.

    Args:
        part: rows of the input.
        compute: graphs to ``[graphs, columns]``.
        on_error: ``"raise"`` stops at the first row that overflows; ``"skip"`` marks it as bad.

    Returns:
        The part without the graphs that overflow, and the results of the others (``None`` if there
        are none).
    """
    if part.data is not None:
        part = _without(part, overflows(part.data), on_error)
    if part.data is None:
        return part, None
    result = compute(part.data)
    reasons = {graph: overflow_reason(part.data, graph) for graph in not_finite(result)}
    finite = [k for k in range(len(result)) if k not in reasons]
    part = _without(part, reasons, on_error)
    return part, None if part.data is None else result[finite]


def _with_features(reading: Reading, rows: Rows) -> InputPart:
    data = None
    if rows.index:
        data = _fitting(reading, assemble(rows.build(range(len(rows.index))), reading.features))
    return InputPart(rows.ids, rows.smiles, rows.errors, data, rows.index, rows.where, rows.targets)


def _named_set(
    reading: Reading, source: Source, path: str | Path, on_error: OnError, options: dict[str, Any]
) -> InputPart:
    """A set in TUDataset's layout, or a named one, with its own targets as the truth."""
    import pandas as pd

    skip = on_error == "skip" and "bad" in source.reader.options
    data = load(path, features=reading.features, on_error="skip" if skip else "raise", **options)
    bad = data.info.get("bad", ()) if skip else ()
    ids = list(data.ids) or [str(i + 1) for i in range(len(data))]
    names = [*ids, *(where for where, _ in bad)]
    truth = None
    if data.y is not None:
        truth = (
            pd.DataFrame({"class": [data.class_names[k] for k in data.y.tolist()]})
            if data.task == "classification"
            else pd.DataFrame(data.y.numpy(), columns=list(data.target_names))
        )
    data = replace(data, y=None, task=None, class_names=(), target_names=())
    return InputPart(
        names,
        [*data.smiles, *[""] * len(bad)] if data.smiles else [],
        [*[""] * len(ids), *(reason for _, reason in bad)],
        _fitting(reading, data),
        list(range(len(ids))),
        names,
        truth,
    )


def _fitting(reading: Reading, data: GraphDataset) -> GraphDataset:
    """The same graphs with the node features of the model."""
    for name in ("hydrogens", "bond_weights"):
        then, now = reading.options.get(name), data.info.get(name)
        if then is not None and now is not None and then != now:
            raise DataError(
                f"the model was trained {'with' if then else 'without'} {name.replace('_', ' ')}, "
                f"but {data.name} comes {'with' if now else 'without'} them"
            )
    return align(data, reading.feature_names)


def _cut(part: InputPart, chunk: int | None) -> Iterator[InputPart]:
    return iter([part]) if chunk is None else part.pieces(chunk)


def _without(part: InputPart, reasons: Mapping[int, str], on_error: OnError) -> InputPart:
    """The same part, in which some graphs are bad rows."""
    if not reasons:
        return part
    bad, errors = BadRows(on_error), list(part.errors)
    for graph, reason in reasons.items():
        row = part.rows[graph]
        bad.add(part.where[row], reason)
        errors[row] = reason
    others = [k for k in range(len(part.rows)) if k not in reasons]
    return replace(part, errors=errors).select(others)
