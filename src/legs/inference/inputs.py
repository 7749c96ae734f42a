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
from legs.data.errors import (
    BadRows,
    DataError,
    DataWarning,
    OnError,
    is_bad_rows,
    listed,
    write_bad_rows,
)
from legs.data.features.blocks import assemble
from legs.data.loading import load
from legs.data.readers.base import RowBatch, Rows
from legs.data.validate import overflows
from legs.io import check_outputs
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

    def pieces(self, size: int) -> Iterator[InputPart]:
        """The same rows in the same order, ``size`` at a time."""
        for start in range(0, len(self), size):
            here = slice(start, start + size)
            graphs = [k for k, row in enumerate(self.rows) if start <= row < start + size]
            yield InputPart(
                self.ids[here],
                self.smiles[here],
                self.errors[here],
                None if self.data is None or not graphs else self.data.subset(graphs),
                [self.rows[k] - start for k in graphs],
                self.where[here],
                None if self.truth is None else self.truth.iloc[graphs],
            )

    def digest(self) -> str:
        """A digest of everything the result depends on."""
        graphs = "" if self.data is None else fingerprint(self.data)
        text = repr((graphs, self.ids, self.errors, self.rows))
        return hashlib.sha256(text.encode()).hexdigest()


Batch = RowBatch | InputPart  # rows to be read, or that were read already


def read_input(
    predictor: Predictor,
    path: str | Path,
    *,
    on_error: OnError = "raise",
    bad_file: str | Path | None = None,
) -> GraphDataset:
    """New graphs for a model, with its node features; targets are neither needed nor read.

    Args:
        predictor: the model.
        path: a file, a folder or the name of a data set.
        on_error: ``"raise"`` (default) stops at the first bad row; ``"skip"`` drops such rows and
            counts them in ``info["bad_rows"]``.
        bad_file: a CSV file to write the dropped rows to: where, reason.

    >>> from legs.training import fit, TrainingOptions
    >>> fitted = fit(load("nci-5k", limit=50), "baseline", options=TrainingOptions(max_epochs=1))
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "new.csv")
    >>> _ = file.write_text("smiles,name\\nCCO,ethanol\\n")
    >>> fitted.predictor.predict(read_input(fitted.predictor, file)).shape
    torch.Size([1, 10])
    """
    if bad_file is not None:
        check_outputs([bad_file], [path])
    (part,) = iter_input(Reading.of(predictor), path, on_error=on_error)
    if part.data is None:
        raise DataError(f"{path} holds no row that can be used")
    bad = part.bad()
    if bad_file is not None:
        write_bad_rows(Path(bad_file), bad)
    return replace(part.data, info={**part.data.info, "bad_rows": len(bad), "bad": bad})


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
    for batch in iter_batches(reading, path, chunk=chunk, on_error=on_error):
        yield read_batch(reading, batch)


def iter_batches(
    reading: Reading, path: str | Path, *, chunk: int | None, on_error: OnError = "raise"
) -> Iterator[Batch]:
    """The same before the slow work on them, so that other processes can do it.

    The batches are the same whenever an input is read. Only tables of molecules are read in
    batches; everything else is read at once, and cut.
    """
    source = resolve(path)
    if source.reader.iter_batches is None:
        yield from _cut(_named_set(reading, source, path, on_error), chunk)
        return
    source.take(dict.fromkeys(reading.asked))
    options = {
        name: value for name, value in reading.options.items() if name in source.reader.options
    }
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


def probe(reading: Reading, path: str | Path) -> InputPart | None:
    """One graph as a table of molecules would give it: methane. ``None`` for other inputs.

    Shows the names of node features, and errors in the choice of features, before the input is
    read.
    """
    from legs.data.readers import tables
    from legs.data.readers.molecules import raw_graphs, read_parallel

    if resolve(path).reader is not tables.READER:
        return None
    hydrogens, weights = (
        bool(reading.options.get(name, False)) for name in ("hydrogens", "bond_weights")
    )
    methane = read_parallel(["C"], hydrogens=hydrogens)
    raw = raw_graphs(methane, hydrogens=hydrogens, bond_weights=weights)
    return _fitting(
        reading, InputPart(["C"], ["C"], [""], assemble(raw, reading.features), [0], ["C"])
    )


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
    kept = [k for k in range(len(result)) if k not in reasons]
    part = _without(part, reasons, on_error)
    return part, None if part.data is None else result[kept]


def bad_rows_beside(out: Path, path: str | Path, on_error: OnError) -> Path:
    """The list of bad rows that belongs to an output file, ``OUT.bad_rows.csv``.

    Args:
        out: the output.
        path: of the input.
        on_error: only ``"skip"`` writes a list.

    Raises:
        FileError: the output, or the list, would replace the input.
        DataError: the list would replace another file.
    """
    bad_file = out.with_name(f"{out.stem}.bad_rows.csv")
    check_outputs([out, *([bad_file] if on_error == "skip" else [])], [path])
    if on_error == "skip" and bad_file.exists() and not is_bad_rows(bad_file):
        raise DataError(f"{bad_file} is no list of bad rows; move it, or rename {out}")
    return bad_file


def _with_features(reading: Reading, rows: Rows) -> InputPart:
    data = None
    if rows.index:
        data = assemble(rows.build(range(len(rows.index))), reading.features)
    part = InputPart(rows.ids, rows.smiles, rows.errors, data, rows.index, rows.where, rows.targets)
    return _fitting(reading, part)


def _named_set(reading: Reading, source: Source, path: str | Path, on_error: OnError) -> InputPart:
    """A set in TUDataset's layout, or a named one."""
    source.take(dict.fromkeys(reading.asked))
    lists_bad = "bad" in source.reader.options
    data = load(
        path,
        features=reading.features,
        on_error=on_error if lists_bad else "raise",
        **{name: v for name, v in reading.options.items() if name in source.reader.options},
    )
    bad = data.info.get("bad", ()) if on_error == "skip" and lists_bad else ()
    ids = list(data.ids) or [str(i + 1) for i in range(len(data))]
    names = [*ids, *(where for where, _ in bad)]
    part = InputPart(
        names,
        [*data.smiles, *[""] * len(bad)] if data.smiles else [],
        [*[""] * len(ids), *(reason for _, reason in bad)],
        replace(data, y=None, task=None, class_names=(), target_names=()),
        list(range(len(ids))),
        names,
        _own_truth(data),
    )
    return _fitting(reading, part)


def _own_truth(data: GraphDataset) -> pd.DataFrame | None:
    import pandas as pd

    if data.y is None:
        return None
    if data.task == "classification":
        return pd.DataFrame({"class": [data.class_names[k] for k in data.y.tolist()]})
    return pd.DataFrame(data.y.numpy(), columns=list(data.target_names))


def _fitting(reading: Reading, part: InputPart) -> InputPart:
    """The same part with the node features of the model."""
    if part.data is None:
        return part
    for name in ("hydrogens", "bond_weights"):
        then, now = reading.options.get(name), part.data.info.get(name)
        if then is not None and now is not None and then != now:
            raise DataError(
                f"the model was trained {'with' if then else 'without'} {name.replace('_', ' ')}, "
                f"but {part.data.name} comes {'with' if now else 'without'} them"
            )
    return replace(part, data=align(part.data, reading.feature_names))


def _cut(part: InputPart, chunk: int | None) -> Iterator[InputPart]:
    return iter([part]) if chunk is None else part.pieces(chunk)


def _without(part: InputPart, reasons: Mapping[int, str], on_error: OnError) -> InputPart:
    """The same part, in which some graphs are bad rows."""
    if not reasons or part.data is None:
        return part
    bad, errors = BadRows(on_error), list(part.errors)
    for graph, reason in reasons.items():
        row = part.rows[graph]
        bad.add(part.where[row], reason)
        errors[row] = reason
    kept = [k for k in range(len(part.rows)) if k not in reasons]
    return replace(
        part,
        errors=errors,
        data=part.data.subset(kept) if kept else None,
        rows=[part.rows[k] for k in kept],
        truth=None if part.truth is None else part.truth.iloc[kept],
    )
