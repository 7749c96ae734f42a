"""Features of graphs as a table with named columns, for files of any length."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from safetensors.torch import save
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, OnError
from legs.inference.inputs import Reading, finite_part, iter_input
from legs.inference.table_writer import ResultWriter
from legs.models import Ensemble, LEGSNet, Network, create
from legs.nn.columns import columns_of_features
from legs.training.inputs import embed
from legs.training.methods import methods
from legs.training.predictor import Predictor, load_predictor
from legs.training.runs import find_model
from legs.training.svm import ScatteringSVM

UNTRAINED = "legs-fixed"
# Rows at a time. Scattering of 2,000 molecules holds a few hundred megabytes.
CHUNK = 2_000


@dataclass(frozen=True)
class Embedder:
    """Turns graphs into features with names."""

    reading: Reading  # how files become graphs
    features_of: Callable[[GraphDataset], Tensor]  # [graphs, features]
    names_of: Callable[[Sequence[str], int], list[str]]  # of node features, and their number
    identity: dict[str, Any] = field(default_factory=dict)  # JSON values that tell it from others


class Embedded(NamedTuple):
    """What :func:`embed_file` did: rows and columns written, rows skipped and their list."""

    rows: int
    columns: int
    skipped: int
    bad_file: Path | None


def fixed_embedder(reading: Reading, device: str = "cpu", **options: Any) -> Embedder:
    """Fixed geometric scattering, which needs no training; options of ``legs.nn.Scattering``."""
    networks: dict[int, LEGSNet] = {}

    def network(channels: int) -> LEGSNet:
        if channels not in networks:
            # Any head will do: only the scattering is used.
            made = create(UNTRAINED, channels, 2, **options)
            assert isinstance(made, LEGSNet)
            networks[channels] = made.eval().to(device)
        return networks[channels]

    network(1)  # reports wrong options before any file is read
    return Embedder(
        reading,
        lambda data: embed(network(data.in_channels), data.to(device)).cpu(),
        lambda names, width: columns_of_features(network(len(names)).scattering.columns(), names),
        {"model": UNTRAINED, "options": options},
    )


def trained_embedder(predictor: Predictor, **asked: Any) -> Embedder:
    """What a trained model's head reads; ``asked``: columns of the input, if not as in training."""

    def names_of(names: Sequence[str], width: int) -> list[str]:
        network = predictor.answerer
        if isinstance(network, ScatteringSVM):
            network = create(UNTRAINED, len(names), 2)
        return network_names(network, names, width)

    def features_of(data: GraphDataset) -> Tensor:
        predictor.check(data)
        return predictor.embedding(data)

    tensors = predictor.answerer.state_dict()
    weights = save({k: v.cpu().contiguous() for k, v in tensors.items()})
    identity = {"model": predictor.method, "weights": hashlib.sha256(weights).hexdigest()}
    return Embedder(Reading.of(predictor, **asked), features_of, names_of, identity)


def open_embedder(
    model: str,
    *,
    features: str | None = None,
    hydrogens: bool = False,
    smiles_column: str | None = None,
    id_column: str | None = None,
    directed: str | None = None,
    options: dict[str, Any] | None = None,
    device: str = "cpu",
) -> Embedder:
    """An embedder by name: ``legs-fixed``, or the directory of a run or model.

    A trained model knows its own blocks of node ``features``, ``hydrogens`` and scattering
    ``options``; these are for ``legs-fixed`` alone. Columns of the input are found by default.
    """
    columns = {"smiles_column": smiles_column, "id_column": id_column, "directed": directed}
    if model == UNTRAINED:
        blocks = None if features is None else tuple(b.strip() for b in features.split("+"))
        asked = {**columns, "hydrogens": hydrogens or None}
        asked = {name: value for name, value in asked.items() if value is not None}
        reading = Reading(blocks, options=asked, asked=tuple(asked))
        return fixed_embedder(reading, device, **(options or {}))
    if model in methods() and not Path(model).exists():
        raise DataError(
            f"{model} has to be trained first: legs train DATA --model {model} -o RUN, "
            "then legs embed RUN DATA"
        )
    if features is not None or hydrogens or options:
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
        for part in iter_input(embedder.reading, path, chunk=chunk, on_error=on_error):
            part, features = finite_part(part, embedder.features_of, on_error)
            writer.add_bad(part.bad())
            if part.data is not None and features is not None:
                data = part.data
                names = names or distinct(embedder.names_of(data.feature_names, features.shape[1]))
                table = pd.DataFrame(features.numpy(), columns=names)
                table.insert(0, "id", pd.Series(data.ids, dtype="string"))
                writer.table.add(table)
            done += len(part)
            report(done)
        if not writer.table.rows:
            raise DataError(f"{path} holds no row that can be used")
    return Embedded(writer.table.rows, len(names), writer.skipped, writer.bad_file)


def network_names(network: Network | None, features: Sequence[str], width: int) -> list[str]:
    """Names of ``width`` graph features: paths and node features in scattering, else numbers."""
    numbered = [f"embed{i}" for i in range(width)]
    last = network.second if isinstance(network, Ensemble) else network
    if not isinstance(last, LEGSNet):
        return numbered
    named = columns_of_features(last.scattering.columns(), features)
    return [*numbered[: width - len(named)], *named]


def distinct(names: Sequence[str]) -> list[str]:
    """The same names; those that come again, or are ``id``, get a number.

    >>> distinct(["id", "a", "a"])
    ['id#2', 'a', 'a#2']
    """
    counts: Counter[str] = Counter(["id"])
    unique = []
    for name in names:
        counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name}#{counts[name]}")
    return unique
