"""New files for a model: read as its training data was, every row kept in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from legs.data.catalog.specs import Source, resolve
from legs.data.dataset import GraphDataset
from legs.data.errors import BadRows, DataError, OnError
from legs.data.features.blocks import align, assemble
from legs.data.features.molecule_features import with_molecule_features
from legs.data.loading import load
from legs.data.readers.base import Rows
from legs.data.readers.tables import TableRows
from legs.data.validate import overflows
from legs.training.fit import fingerprint
from legs.training.predictor import not_finite

if TYPE_CHECKING:
    from legs.training.predictor import Predictor


@dataclass(frozen=True)
class Reading:
    """How files become graphs with the node features that a model reads."""

    features: tuple[str, ...] | None = None  # blocks of node features; None: what suits the file
    feature_names: tuple[str, ...] = ()  # what the node features must be called; (): anything
    options: Mapping[str, Any] = field(default_factory=dict)  # of the reader, such as hydrogens
    targets: tuple[str, ...] = ()  # columns that hold the truth, if they are there
    # Options that a user chose: such a column must be there, while one that training had may be
    # called otherwise in a new file.
    asked: tuple[str, ...] = ()
    others: bool = False  # whether all other columns of a table are read, too

    @classmethod
    def of(cls, predictor: Predictor, **options: Any) -> Reading:
        """As a model's training data was read; ``options`` override it unless ``None``."""
        if not predictor.features:
            raise DataError(
                "the model was trained on graphs that were made in Python; what its node features "
                "are in a file is not known"
            )
        # Models that do not say so were trained on whole salts.
        noted = {"keep_salts": True, **predictor.input}
        targets = tuple(noted.pop("targets", ()))
        noted.pop("graph_feature_names", None)  # the model's, as its columns of node features are
        asked = {name: value for name, value in options.items() if value is not None}
        return cls(
            predictor.features, predictor.feature_names, {**noted, **asked}, targets, tuple(asked)
        )


@dataclass(frozen=True, eq=False)
class InputPart(Rows):
    """Rows with their graphs, which have the node features of the model."""

    data: GraphDataset | None = None  # None where no row can be used

    def bad(self) -> list[tuple[str, str]]:
        """Where the rows are that cannot be used, and why."""
        return [(w, why) for w, why in zip(self.where, self.errors, strict=True) if why]

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, graphs: list[int], rows: slice = slice(None)) -> InputPart:
        """Some rows, and the graphs at some positions, all of which lie in these rows."""
        texts = {name: getattr(self, name)[rows] for name in ("ids", "smiles", "errors", "where")}
        return replace(
            self,
            **texts,
            index=[self.index[k] - (rows.start or 0) for k in graphs],
            others=None if self.others is None else self.others.iloc[rows],
            targets=None if self.targets is None else self.targets.iloc[graphs],
            data=None if self.data is None or not graphs else self.data.subset(graphs),
        )

    def pieces(self, size: int | None) -> Iterator[InputPart]:
        """The same rows in the same order, ``size`` at a time, or all."""
        if size is None or size >= len(self):
            yield self
            return
        for start in range(0, len(self), size):
            graphs = [k for k, row in enumerate(self.index) if start <= row < start + size]
            yield self.select(graphs, slice(start, start + size))

    def digest(self) -> str:
        """A digest of everything the result depends on."""
        graphs = "" if self.data is None else fingerprint(self.data)
        text = repr((graphs, self.ids, self.errors, self.index))
        return hashlib.sha256(text.encode()).hexdigest()


Batch = TableRows | InputPart  # rows to be read, or that were read already
Compute = Callable[[GraphDataset], Tensor]


def iter_batches(
    reading: Reading, path: str | Path, *, chunk: int | None, on_error: OnError = "raise"
) -> Iterator[Batch]:
    """The rows of a file, a folder or a named data set in order, ``chunk`` at a time (or all).

    Other processes may do the slow work on them. The batches are the same whenever an input is
    read. Tables of molecules are never in memory whole; everything else is read at once, and cut.
    ``on_error="raise"`` stops at the first bad row.
    """
    source = resolve(path)
    source.take(dict.fromkeys(reading.asked))
    options = {k: v for k, v in reading.options.items() if k in source.reader.options}
    if source.reader.iter_batches is None:
        yield from _named_set(reading, source, path, on_error, options).pieces(chunk)
        return
    options |= {"targets": reading.targets, "asked": reading.asked}
    if reading.others and "smiles_column" in source.reader.options:
        options["others"] = True
    for batch in source.reader.iter_batches(
        *source.arguments(), chunk=chunk, on_error=on_error, **options
    ):
        if isinstance(batch, Rows):
            yield from read_batch(reading, batch).pieces(chunk)
        else:
            yield batch


def read_batch(reading: Reading, batch: TableRows | Rows) -> InputPart:
    """The graphs of a batch, with the node features of the model."""
    if isinstance(batch, InputPart):
        return batch
    rows = batch if isinstance(batch, Rows) else batch.read()
    data = None
    if rows.index and rows.build is not None:
        data = _fitting(reading, assemble(rows.build(range(len(rows.index))), reading.features))
    # Without what builds graphs, which cannot be sent to another process.
    return InputPart(**{**vars(rows), "build": None}, data=data)


def iter_results(
    reading: Reading,
    path: str | Path,
    compute: Compute,
    *,
    chunk: int | None,
    on_error: OnError = "raise",
) -> Iterator[tuple[InputPart, Tensor | None]]:
    """All rows of an input in parts, with their results as :func:`finite_part` has them."""
    for batch in iter_batches(reading, path, chunk=chunk, on_error=on_error):
        yield finite_part(read_batch(reading, batch), compute, on_error)


def finite_part(
    part: InputPart, compute: Compute, on_error: OnError
) -> tuple[InputPart, Tensor | None]:
    """Features or predictions ``[graphs, columns]``; a row that overflows is a bad one.

    Returns the part without such graphs, and the results of the others, ``None`` without any.
    """
    if part.data is not None:
        part = _without(part, overflows(part.data), on_error)
    if part.data is None:
        return part, None
    result = compute(part.data)
    reasons = not_finite(part.data, result)
    if not reasons:
        return part, result
    finite = [k for k in range(len(result)) if k not in reasons]
    return _without(part, reasons, on_error), result[finite] if finite else None


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
        names,
        [*[""] * len(ids), *(reason for _, reason in bad)],
        list(range(len(ids))),
        targets=truth,
        data=_fitting(reading, data),
    )


def _fitting(reading: Reading, data: GraphDataset) -> GraphDataset:
    """The same graphs with the node and graph-level features of the model."""
    for name in ("hydrogens", "bond_weights"):
        then, now = reading.options.get(name), data.info.get(name)
        if then is not None and now is not None and then != now:
            raise DataError(
                f"the model was trained {'with' if then else 'without'} {name.replace('_', ' ')}, "
                f"but {data.name} comes {'with' if now else 'without'} them"
            )
    molecules = (reading.options.get(name) for name in ("descriptors", "fingerprint"))
    return align(with_molecule_features(data, *molecules), reading.feature_names)


def _without(part: InputPart, reasons: Mapping[int, str], on_error: OnError) -> InputPart:
    """The same part, in which some graphs are bad rows."""
    if not reasons:
        return part
    bad, errors = BadRows(on_error), list(part.errors)
    for graph, reason in reasons.items():
        row = part.index[graph]
        bad.add(part.where[row], reason)
        errors[row] = reason
    others = [k for k in range(len(part.index)) if k not in reasons]
    return replace(part, errors=errors).select(others)
