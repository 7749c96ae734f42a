"""Features of graphs as a table with named columns, for files of any length.

A table is one file, or a folder of Parquet files made on many cores or machines. For a folder the
input is cut into parts of equal size. A part is embedded by whatever worker an engine has, and is a
file that is there whole or not at all; once it is finished, a line of a list says what it was made
from, and its checksum. A run that was killed resumes with the parts that are missing, damaged or
not on the list.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save
from torch import Tensor

from legs import io
from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, OnError, write_bad_rows
from legs.data.features.molecule_features import Descriptors, Fingerprint, feature_names
from legs.engine import Engine, LocalEngine
from legs.inference import inputs
from legs.inference.inputs import Batch, Compute, InputPart, Reading, finite_part
from legs.inference.table_writer import ResultWriter, TableWriter
from legs.io import FileError
from legs.models import Ensemble, LEGSNet, Network, create
from legs.nn.columns import columns_of_features
from legs.training.checkpoint import keep_settings
from legs.training.inputs import embed
from legs.training.methods import methods
from legs.training.predictor import Predictor, load_predictor
from legs.training.runs import find_model

UNTRAINED = "legs-fixed"
# Rows at a time. Scattering of 2,000 molecules holds a few hundred megabytes.
CHUNK = 2_000
# Rows of a part: a hundred megabytes of scattering, a few seconds of work.
PART = 20_000
# Readers of Parquet folders pass over names that begin so.
SETTINGS, DONE, BAD, LIST = "_settings.json", "_done.json", "_bad_rows.csv", "_parts.jsonl"
ALL = "part-*.parquet"


@dataclass(frozen=True)
class Embedder:
    """Turns graphs into features with names."""

    reading: Reading  # how files become graphs
    features_of: Compute  # [graphs, features]
    network_of: Callable[[int], Network]  # that makes them, by the number of node features
    # JSON values that distinguish it from others
    identity: dict[str, Any] = field(default_factory=dict)
    appends: bool = False  # whether graph-level features follow, as they are

    def names_of(self, features: Sequence[str], width: int) -> list[str]:
        """Names of ``width`` features, paths and node features in scattering, else numbers.

        Those that come again, or are ``id``, get a number: ``a``, ``a#2``.
        """
        names = [f"embed{i}" for i in range(width)]
        network = self.network_of(len(features))
        last = network.second if isinstance(network, Ensemble) else network
        if isinstance(last, LEGSNet):
            named = columns_of_features(last.scattering.columns(), features)
            names[width - len(named) :] = named
        counts = Counter(["id"])
        for place, name in enumerate(names):
            counts[name] += 1
            names[place] = name if counts[name] == 1 else f"{name}#{counts[name]}"
        return names

    def columns_of(self, data: GraphDataset, features: Tensor) -> list[str]:
        """Names of the columns of a table, less its ids."""
        more = data.graph_feature_names if self.appends else ()
        return [*self.names_of(data.feature_names, features.shape[1]), *more]

    def complete(self, part: InputPart, features: Tensor) -> Tensor:
        """Features of a part with those that follow, NaN where they are missing."""
        if not self.appends:
            return features
        assert part.data is not None and part.data.graph_features is not None
        return torch.cat([features, part.data.graph_features], dim=1)


class Embedded(NamedTuple):
    """What :func:`embed_file` did: rows and columns written, rows skipped and their list."""

    rows: int
    columns: int
    skipped: int
    bad_file: Path | None


def fixed_embedder(reading: Reading, device: str = "cpu", **options: Any) -> Embedder:
    """Fixed geometric scattering, which needs no training; options of ``legs.nn.Scattering``."""
    networks: dict[int, Network] = {}

    def network(channels: int) -> Network:
        if channels not in networks:  # any head will do: only the scattering is used
            networks[channels] = create(UNTRAINED, channels, 2, **options).eval().to(device)
        return networks[channels]

    def features_of(data: GraphDataset) -> Tensor:
        return embed(network(data.in_channels), data.to(device)).cpu()

    network(1)  # reports wrong options before any file is read
    identity = {"model": UNTRAINED, "options": options}
    appends = any(reading.options.get(name) for name in ("descriptors", "fingerprint"))
    return Embedder(reading, features_of, network, identity, appends)


def trained_embedder(predictor: Predictor, **asked: Any) -> Embedder:
    """What a trained model's head reads; ``asked``: columns of the input, if not as in training."""

    def network(channels: int) -> Network:
        trained = isinstance(predictor.answerer, Network)
        return predictor.network if trained else create(UNTRAINED, channels, 2)

    tensors = predictor.answerer.state_dict()
    weights = save({k: v.cpu().contiguous() for k, v in tensors.items()})
    identity = {"model": predictor.method, "weights": hashlib.sha256(weights).hexdigest()}
    return Embedder(Reading.of(predictor, **asked), predictor.embedding, network, identity)


def open_embedder(
    model: str,
    *,
    features: str | None = None,
    descriptors: Descriptors | None = None,
    fingerprint: Fingerprint | None = None,
    hydrogens: bool = False,
    smiles_column: str | None = None,
    id_column: str | None = None,
    directed: str | None = None,
    options: dict[str, Any] | None = None,
    device: str = "cpu",
) -> Embedder:
    """An embedder by name: ``legs-fixed``, or the directory of a run or model.

    A trained model knows its own blocks of node ``features``, ``descriptors``, ``fingerprint``,
    ``hydrogens`` and scattering ``options``; these are for ``legs-fixed`` alone, which appends
    descriptors and fingerprint of molecules to its features. Columns of the input are found by
    default.
    """
    columns: dict[str, Any] = {
        "smiles_column": smiles_column,
        "id_column": id_column,
        "directed": directed,
    }
    if model == UNTRAINED:
        blocks = None if features is None else tuple(b.strip() for b in features.split("+"))
        if descriptors or fingerprint:
            feature_names(descriptors, fingerprint)  # reports wrong options before reading
        columns["hydrogens"] = hydrogens or None
        given = {**columns, "descriptors": descriptors, "fingerprint": fingerprint}
        given = {name: value for name, value in given.items() if value is not None}
        asked = tuple(name for name in columns if name in given)
        reading = Reading(blocks, options=given, asked=asked)
        return fixed_embedder(reading, device, **(options or {}))
    if model in methods() and not Path(model).exists():
        raise DataError(
            f"{model} has to be trained first: legs train DATA --model {model} -o RUN, "
            "then legs embed RUN DATA"
        )
    if features is not None or descriptors or fingerprint or hydrogens or options:
        raise DataError(
            f"{model} has been trained and knows its features and options; "
            f"choices are for {UNTRAINED} alone"
        )
    return trained_embedder(load_predictor(find_model(model)).to(device), **columns)


def embed_file(
    embedder: Embedder,
    path: str | Path,
    out: str | Path,
    *,
    on_error: OnError = "raise",
    chunk: int = CHUNK,
    report: Callable[[int], None] = lambda rows: None,
) -> Embedded:
    """Writes features of graphs to a table: the column ``id``, then a column per feature.

    Tables of molecules are read, embedded and written in parts: memory does not grow with the file.

    Args:
        embedder: what turns graphs into features.
        path: a file, a folder or the name of a data set.
        out: a CSV, TSV or Parquet file; written whole or not at all.
        on_error: ``"raise"`` (default) stops at the first bad row; ``"skip"`` lists such rows in
            ``OUT.bad_rows.csv`` beside the output.
        chunk: rows at a time.
        report: called with the number of rows done.
    """
    names: list[str] = []
    done = 0
    with ResultWriter(out, path, on_error) as writer:
        for part, features in inputs.iter_results(
            embedder.reading, path, embedder.features_of, chunk=chunk, on_error=on_error
        ):
            writer.add_bad(part.bad())
            if part.data is not None and features is not None:
                names = names or embedder.columns_of(part.data, features)
                values = embedder.complete(part, features)
                table = pd.DataFrame(values.numpy(), columns=names)
                table.insert(0, "id", pd.Series(part.data.ids, dtype="string"))
                writer.table.add(table)
            done += len(part)
            report(done)
        if not writer.table.rows:
            raise DataError(f"{path} holds no row that can be used")
    return Embedded(writer.table.rows, len(names), writer.skipped, writer.bad_file)


class Part(NamedTuple):
    """A part: what it is made from, and on the list also what was made."""

    name: str  # of its file
    first: int  # number of its first row in the input, from 0
    rows: int  # of the input in it, including those that cannot be used
    source: str  # digest of these rows
    file: str = ""  # checksum
    bad: tuple[tuple[int, str, str], ...] = ()  # number in the input, place and reason of each


class Shared(NamedTuple):
    """What every part needs."""

    embedder: Embedder
    columns: list[str]
    folder: Path
    on_error: OnError = "raise"


def embed_folder(
    embedder: Embedder,
    path: str | Path,
    out: str | Path,
    *,
    engine: Engine | None = None,
    on_error: OnError = "raise",
    part: int = PART,
    report: Callable[[int], None] = lambda rows: None,
) -> Embedded:
    """Writes features of graphs into a folder of Parquet files, ``part-000000.parquet`` and so on.

    There is exactly one row for each row of the input, in its order: ``row`` (its number, from 0),
    ``id``, then a column per feature. Where a row cannot be used, its features are missing, and
    ``_bad_rows.csv`` says why. The same call resumes after an interruption; parts that are finished
    are not computed again unless they are damaged (a :class:`~legs.io.FileWarning`). Memory does
    not grow with the input, unless that is a folder of graphs or a named data set, which are read
    whole.

    Args:
        embedder: what turns graphs into features.
        path: a file, a folder or the name of a data set.
        out: the folder; made if need be. One that holds other files is refused.
        engine: makes the parts (default: a process per core).
        on_error: ``"raise"`` (default) stops at the first bad row, and keeps the parts that are
            done; ``"skip"`` continues.
        part: rows in a part.
        report: called with the number of rows done.
    """
    folder = io.expand_user(out)
    io.check_outputs([folder], [path])
    with io.one_writer(folder, lambda folder: (folder / SETTINGS).is_file()):
        batches = inputs.iter_batches(embedder.reading, path, chunk=part, on_error=on_error)
        columns, batches = _columns(embedder, path, batches)
        settings = {
            "embedder": embedder.identity,
            "features": embedder.reading.features,
            "reading": dict(embedder.reading.options),
            "input": Path(path).name,
            "part": part,
            "columns": columns,
        }
        keep_settings(folder, settings, SETTINGS)
        listed, parts, done = _read_list(folder / LIST), list[Part](), 0

        def add(made: Part) -> None:
            nonlocal done
            parts.append(made)
            done += made.rows
            report(done)

        def missing() -> Iterator[tuple[Part, Batch]]:
            first = 0
            for number, rows in enumerate(batches):
                name = f"part-{number:06d}.parquet"
                wanted, made = Part(name, first, len(rows), rows.digest()), listed.get(name)
                first += len(rows)
                if made is not None and _is_whole(folder, wanted, made):
                    add(made)
                else:
                    yield wanted, rows

        # Workers may have been started elsewhere.
        shared = Shared(embedder, columns, folder.absolute(), on_error)
        for _, made in (engine or LocalEngine()).run(make_part, shared, missing()):
            io.append(folder / LIST, json.dumps(io.with_digest(made._asdict())) + "\n")
            add(made)
        return _finish(path, folder, parts, len(columns))


def make_part(shared: Shared, task: tuple[Part, Batch]) -> Part:
    """Embeds the rows of one part and writes its file, on a worker."""
    (part, batch), folder, bad = task, shared.folder, list[tuple[int, str, str]]()
    if not (folder / SETTINGS).exists():
        raise FileError(
            f"{folder} is not to be seen on every machine of the cluster; the output has to be on "
            "a disk that all of them share, under the same path"
        )
    options = {"write_statistics": ["row"], "write_page_checksum": True}
    with TableWriter(folder / part.name, **options) as writer:
        for piece in batch.pieces(CHUNK):
            rows = inputs.read_batch(shared.embedder.reading, piece)
            rows, features = finite_part(rows, shared.embedder.features_of, shared.on_error)
            if features is not None:
                features = shared.embedder.complete(rows, features)
            first = part.first + writer.rows
            places = enumerate(zip(rows.where, rows.errors, strict=True), first)
            bad += [(number, where, reason) for number, (where, reason) in places if reason]
            writer.add(part_table(rows, features, shared.columns, first))
        assert writer.rows == part.rows
    return part._replace(file=io.file_digest(folder / part.name), bad=tuple(bad))


def part_table(
    part: InputPart, features: Tensor | None, columns: Sequence[str], first: int = 0
) -> pd.DataFrame:
    """A table with a row for each row of the input; ``first`` is the number of the first."""
    values = np.full((len(part), len(columns)), np.nan, np.float32, order="F")  # written by column
    if features is not None:
        values[part.index] = features.float().numpy()
    table = pd.DataFrame(values, columns=list(columns), copy=False)
    table.insert(0, "id", pd.Series(part.ids, dtype="string"))
    table.insert(0, "row", np.arange(first, first + len(part)))
    return table


def _read_list(file: Path) -> dict[str, Part]:
    """The list of finished parts; those on damaged lines are computed again."""
    content = io.read_file(file) if file.exists() else b""
    if content and not content.endswith(b"\n"):
        io.append(file, "\n")
    parts = {}
    for line in content.splitlines():
        # A line may hold anything: a number has no keys, an infinite one is no row.
        with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            made = Part(**io.check_digest(io.parse_json(line), file))
            bad = tuple((int(row), str(where), str(reason)) for row, where, reason in made.bad)
            parts[made.name] = made._replace(bad=bad)
    return parts


def _is_whole(folder: Path, part: Part, made: Part) -> bool:
    """Whether the file of a part is there as it was made, and from the same rows."""
    file = folder / part.name
    if not file.is_file():
        return False
    if made._replace(file="", bad=()) != part:
        raise FileError(
            f"{file} was made from other rows: the input has changed since. Choose another folder, "
            "or delete this one to start again"
        )
    if io.file_digest(file) == made.file:
        return True
    message = f"{file} is damaged: its checksum is wrong; it is computed again"
    warnings.warn(message, io.FileWarning, stacklevel=3)
    return False


def _finish(path: str | Path, folder: Path, parts: list[Part], columns: int) -> Embedded:
    """Checks that there are no other parts, and lists the rows that could not be used."""
    odd = sorted({made.name for made in parts} ^ {file.name for file in folder.glob(ALL)})
    if odd:
        raise FileError(
            f"{folder}: parts that miss or are too many: {', '.join(odd[:3])}. Delete what is too "
            "much, and run the same command again"
        )
    rows, bad = sum(made.rows for made in parts), sorted(b for made in parts for b in made.bad)
    if len(bad) == rows:
        raise DataError(f"{path} holds no row that can be used")
    if bad:
        write_bad_rows(folder / BAD, [(where, reason) for _, where, reason in bad])
    else:
        (folder / BAD).unlink(missing_ok=True)
    facts = {"rows": rows, "parts": len(parts), "bad_rows": len(bad)}
    io.write_atomically(folder / DONE, json.dumps(io.with_digest(facts), indent=1).encode())
    return Embedded(rows, columns, len(bad), folder / BAD if bad else None)


def _columns(
    embedder: Embedder, path: str | Path, batches: Iterator[Batch]
) -> tuple[list[str], Iterator[Batch]]:
    """Names of the features, from the first graph there is; and all batches again."""
    passed: list[Batch] = []
    for batch in batches:
        passed.append(batch)
        for piece in batch.pieces(64):
            data = inputs.read_batch(embedder.reading, piece).data
            if data is not None:
                names = embedder.columns_of(data, embedder.features_of(data[:1]))
                return names, chain(passed, batches)
    raise DataError(f"{path} holds no row that can be used")
