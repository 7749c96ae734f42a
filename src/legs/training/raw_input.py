"""Raw input for a model: new files are read the way the training data was."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, OnError
from legs.data.loading import load
from legs.data.origins import Source, resolve
from legs.models.saving import write_atomically

if TYPE_CHECKING:
    import pandas as pd

    from legs.training.predictor import Predictor

# What readers note about how molecules became graphs, and which columns they took.
_NOTED = ("hydrogens", "bond_weights", "smiles_column", "id_column")
_REMEMBERED = "reading"  # in the info of a data set


@dataclass(frozen=True)
class Reading:
    """How files become graphs with the node features that a model reads.

    Args:
        features: blocks of node features (default: what suits the file).
        feature_names: what the node features must be called (default: anything).
        options: of the reader, such as ``hydrogens`` and ``smiles_column``.
        targets: columns that hold the truth, if they are there.
        asked: names of the options that a user gave: such a column must be there, while one that
            training had may be called otherwise in a new file.
    """

    features: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()

    @classmethod
    def of(cls, predictor: Predictor, **asked: Any) -> Reading:
        """As a model's training data was read; ``asked`` goes first where it is not ``None``."""
        if not predictor.features:
            raise DataError(
                "the model was trained on graphs that were made in Python; what its node features "
                "are in a file is not known"
            )
        noted = dict(predictor.input)
        targets = tuple(noted.pop("targets", ()))
        given = {name: value for name, value in asked.items() if value is not None}
        return cls(
            predictor.features, predictor.feature_names, {**noted, **given}, targets, tuple(given)
        )


@dataclass(frozen=True)
class InputPart:
    """Some rows of an input, in its order, those that cannot be used among them.

    Args:
        ids: one a row.
        smiles: one a row, as given; empty for graphs that are no molecules.
        errors: one a row: why it cannot be used, or ``""``.
        data: the graphs of the other rows, or ``None`` if there are none.
        rows: the row of each graph.
        where: what messages call each row: a line of the file, a file of the folder.
        truth: columns of targets that the input has, one row a graph, or ``None``.
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


def read_training(name_or_path: str | Path, **options: Any) -> GraphDataset:
    """:func:`legs.data.load`, and the data set remembers the reader's options for later input.

    Args:
        name_or_path: as in :func:`legs.data.load`.
        options: those of :func:`legs.data.load`.
    """
    data = load(name_or_path, **options)
    if data.y is None:
        raise DataError(f"{data.name} has no targets to train on; name a column with --target")
    # What concerns this file alone, and what the data set says itself.
    own = ("features", "target", "task", "table", "on_error", "bad_file", "limit", "cache")
    kept = {k: v for k, v in options.items() if k not in own and v is not None}
    return replace(data, info={**data.info, _REMEMBERED: kept})


def input_of(data: GraphDataset) -> dict[str, Any]:
    """How a data set was read, as JSON values: what :class:`Reading` needs for later input."""
    noted = {name: data.info[name] for name in _NOTED if data.info.get(name) is not None}
    return {**noted, **data.info.get(_REMEMBERED, {}), "targets": list(data.target_names)}


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
            keeps count in ``info["bad_rows"]``.
        bad_file: a CSV file to write the dropped rows to: where, reason.

    >>> from legs.training import fit, TrainingOptions
    >>> fitted = fit(load("nci-5k", limit=50), "baseline", options=TrainingOptions(max_epochs=1))
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "new.csv")
    >>> _ = file.write_text("smiles,name\\nCCO,ethanol\\n")
    >>> fitted.predictor.predict(read_input(fitted.predictor, file)).shape
    torch.Size([1, 10])
    """
    (part,) = iter_input(Reading.of(predictor), path, on_error=on_error)
    if part.data is None:
        raise DataError(f"{path} holds no row that can be used")
    bad = part.bad()
    if bad_file is not None:
        write_bad_rows(Path(bad_file), bad)
    return replace(part.data, info={**part.data.info, "bad_rows": len(bad), "bad": bad})


def iter_input(
    reading: Reading,
    path: str | Path,
    *,
    chunk: int | None = None,
    on_error: OnError = "raise",
) -> Iterator[InputPart]:
    """The rows of an input in order, in parts; tables of any length are never held whole.

    Args:
        reading: how to read it.
        path: a file, a folder or the name of a data set.
        chunk: rows in a part (default: all). Only tables of molecules come in parts.
        on_error: ``"raise"`` (default) stops at the first bad row; ``"skip"`` goes on.
    """
    from legs.data.tables import read_table
    from legs.training.raw_tables import table_parts

    source = resolve(path)
    if source.reader is read_table:
        parts = table_parts(reading, source.arguments()[0], chunk, on_error)
    else:
        parts = iter([_whole(reading, source, path, on_error)])
    return (fitting(reading, part) for part in parts)


def fitting(reading: Reading, part: InputPart) -> InputPart:
    """The same part with the node features of the model; an error where they cannot be had."""
    if part.data is None:
        return part
    _check_same(reading, part.data)
    return replace(part, data=align(part.data, reading.feature_names))


def align(data: GraphDataset, wanted: Sequence[str]) -> GraphDataset:
    """The same graphs with the node features ``wanted``, in that order; any if it is empty.

    A one-hot column (``label=C``) that no graph has is a column of zeros. What else does not fit is
    left for :meth:`legs.training.Predictor.check` to tell.
    """
    found = data.feature_names
    missing = [name for name in wanted if name not in found]
    fits = set(found) <= set(wanted) and len(set(wanted)) == len(wanted)
    if found == tuple(wanted) or not fits or any("=" not in name for name in missing):
        return data
    x = torch.zeros(data.num_nodes, len(wanted))
    x[:, [list(wanted).index(name) for name in found]] = data.x
    return data.with_x(x, tuple(wanted))


def write_bad_rows(path: Path, bad: Sequence[Sequence[str]]) -> None:
    """A CSV file of rows that were dropped: where, reason."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["where", "reason"])
    writer.writerows(bad)
    write_atomically(path, text.getvalue().encode())


def _check_same(reading: Reading, data: GraphDataset) -> None:
    for name in ("hydrogens", "bond_weights"):
        then, now = reading.options.get(name), data.info.get(name)
        if then is not None and now is not None and then != now:
            words = name.replace("_", " ")
            raise DataError(
                f"the model was trained {'with' if then else 'without'} {words}, but {data.name} "
                f"comes {'with' if now else 'without'} them"
            )


def _whole(reading: Reading, source: Source, path: str | Path, on_error: OnError) -> InputPart:
    """Everything but tables: folders of files, sets in TUDataset's layout, named sets."""
    source.take(dict.fromkeys(reading.asked))  # what was asked for and nobody heeds is an error
    options = {
        name: value
        for name, value in reading.options.items()
        if source.accepts(name) and (name != "id_column" or name in reading.asked)
    }
    folder = Path(path).expanduser()
    labels = None
    files = source.reader.__name__ == "read_folder"  # one a graph
    if files:
        from legs.training.raw_folders import in_order, label_table

        labels = label_table(folder, source)
        if labels is not None:
            options["target"] = []  # the truth is looked up there, also where there is none
    data = load(
        path,
        features=reading.features,
        on_error=on_error if source.accepts("bad") else "raise",
        **options,
    )
    bad = cast(list[tuple[str, str]], data.info.get("bad", ())) if on_error == "skip" else []
    ids = list(data.ids) or [str(i + 1) for i in range(len(data))]
    entries = [(name, "", i) for i, name in enumerate(ids)]
    truth = _own_truth(data)
    if files:
        entries = in_order(folder, ids, bad)
        truth = None if labels is None else labels.truth(ids, reading.targets)
    elif source.accepts("bad"):
        entries += [(where, why, -1) for where, why in bad]
    rows = [row for row, entry in enumerate(entries) if entry[2] >= 0]
    graphs = [entries[row][2] for row in rows]
    return InputPart(
        [name for name, _, _ in entries],
        [data.smiles[i] if i >= 0 else "" for _, _, i in entries] if data.smiles else [],
        [why for _, why, _ in entries],
        replace(data.subset(graphs), y=None, task=None, class_names=(), target_names=()),
        rows,
        [name for name, _, _ in entries],
        None if truth is None else truth.iloc[graphs],
    )


def _own_truth(data: GraphDataset) -> pd.DataFrame | None:
    import pandas as pd

    if data.y is None:
        return None
    if data.task == "classification":
        return pd.DataFrame({"class": [data.class_names[k] for k in data.y.tolist()]})
    return pd.DataFrame(data.y.numpy(), columns=list(data.target_names))
