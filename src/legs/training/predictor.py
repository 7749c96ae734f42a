"""A fitted model that takes raw input: what is saved, loaded and asked for predictions."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, listed
from legs.data.features.molecule_features import with_molecule_features
from legs.data.splits import canonical_smiles
from legs.data.validate import check_values, graph_name
from legs.models import saving
from legs.models.network import Network
from legs.models.saving import ModelError
from legs.training.inputs import Inputs, embed, predict
from legs.training.methods import BLENDS
from legs.training.neighbors import Neighbors
from legs.training.task import Task

if TYPE_CHECKING:
    from legs.training.auto import Blend
    from legs.training.svm import ScatteringSVM

KEY_LENGTH = 8  # bytes: among millions of graphs, no two agree by chance
SAVED = ("method", "features", "feature_names", "input", "half_widths")


@dataclass(frozen=True)
class Predictor:
    """A fitted model with all it needs to take raw input.

    Args:
        answerer: the fitted model itself.
        task: classes or targets, and their scale.
        features: names of the node features' blocks, as :func:`legs.data.load` takes them.
        feature_names: names of the node features.
        method: the name it was trained by.
        input: how its training data was read, as JSON values; see
            :func:`legs.data.loading.reading_options`.
        trained_on: keys of the graphs that it was trained and validated on
            (:func:`~legs.training.predictor.encode_keys`); empty if unknown.
        neighbors: fingerprints of the molecules that it was trained on, if they are molecules.
        half_widths: of 90 % intervals around predicted targets, see
            :func:`legs.training.calibration.half_widths`; empty if unknown.
    """

    answerer: Network | ScatteringSVM | Blend
    task: Task
    features: tuple[str, ...]
    feature_names: tuple[str, ...]
    method: str
    input: dict[str, Any] = field(default_factory=dict)
    trained_on: str = ""
    neighbors: Neighbors | None = None
    half_widths: tuple[float | None, ...] = ()

    @property
    def network(self) -> Network:
        """The trained network."""
        if not isinstance(self.answerer, Network):
            raise ModelError(f"{self.method} is not a network")
        return self.answerer

    def num_parameters(self) -> int:
        """Number of learned parameters."""
        return self.answerer.num_parameters()

    def to(self, device: torch.device | str) -> Predictor:
        """Moves the network to a device, where it computes; results stay on the CPU."""
        if isinstance(self.answerer, Network):
            self.answerer.to(device)
        return self

    def check(self, data: GraphDataset) -> None:
        """Raises :class:`~legs.data.errors.DataError` unless the node features are the model's."""
        if data.feature_names != self.feature_names:
            names = (self.feature_names, data.feature_names)
            mine, others = (f"{len(some)} node features ({listed(some, 6)})" for some in names)
            raise DataError(f"the model reads {mine}, but the data has {others}")

    def complete(self, data: GraphDataset) -> GraphDataset:
        """The data set with the graph-level features of the model, computed for molecules.

        Raises:
            DataError: there are others, and no SMILES to compute them from.
        """
        names = tuple(self.input.get("graph_feature_names", ()))
        options = [self.input.get(name) for name in ("descriptors", "fingerprint")]
        if not names or data.graph_feature_names == names or not any(options):
            return data
        data = with_molecule_features(data, *options)
        # Another version of RDKit may have other descriptors: those of the model that it lacks are
        # missing values.
        columns = {name: k for k, name in enumerate(data.graph_feature_names)}
        assert data.graph_features is not None
        padded = torch.nn.functional.pad(data.graph_features, (0, 1), value=torch.nan)
        table = padded[:, [columns.get(name, -1) for name in names]]
        return replace(data, graph_features=table, graph_feature_names=names)

    def predict(self, data: GraphDataset, batch_size: int = 512) -> Tensor:
        """Class probabilities, or targets in original units, ``[graphs, classes or targets]``.

        Raises:
            DataError: other node features than the model's, or a result that is not finite.
        """
        check_values(data)
        return check_finite(data, self.answers(data, batch_size))

    def answers(self, data: GraphDataset, batch_size: int = 512) -> Tensor:
        """:meth:`predict` without checks of values."""
        self.check(data)
        network = self.answerer
        if not isinstance(network, Network):
            return network.answers(self.complete(data), self.task)
        device = next(network.parameters()).device
        inputs = Inputs(self.complete(data), network, device, keep=False)
        out = predict(inputs, network, torch.arange(len(data), device=device), batch_size)
        if out.shape[1] != len(self.task.names):
            names = f"{len(self.task.names):,} names"
            raise ModelError(f"the model is damaged: {names} for {out.shape[1]} outputs")
        return self.task.answers(out.float().cpu())

    def embed(self, data: GraphDataset) -> Tensor:
        """The features that the model's head reads, ``[graphs, features]``.

        Raises:
            DataError: as in :meth:`predict`.
        """
        check_values(data)
        return check_finite(data, self.embedding(data))

    def embedding(self, data: GraphDataset) -> Tensor:
        """:meth:`embed` without checks of values."""
        self.check(data)
        network = self.answerer
        if not isinstance(network, Network):
            return network.embedding(data)
        return embed(network, self.complete(data).to(next(network.parameters()).device)).cpu()

    def in_training(self, data: GraphDataset) -> Tensor | None:
        """Which graphs it was trained or validated on, ``[graphs]``; ``None`` if unknown."""
        if not self.trained_on:
            return None
        return torch.from_numpy(np.isin(graph_keys(data), decode_keys(self.trained_on)))

    def save(self, directory: str | Path) -> None:
        """Writes the model into a directory; :func:`legs.load` reads it."""
        description = {name: getattr(self, name) for name in SAVED} | {"task": self.task.to_json()}
        if self.trained_on:
            description["trained_on"] = self.trained_on
        if isinstance(self.answerer, Network):
            description["network"] = saving.describe_network(self.answerer)
        else:
            kind = "blend" if self.method in BLENDS else "svm"
            description[kind] = self.answerer.describe()
        near = self.neighbors.tensors() if self.neighbors else {}
        saving.save_directory(directory, description, {**self.answerer.state_dict(), **near})


def load_predictor(directory: str | Path) -> Predictor:
    """Reads what :meth:`Predictor.save` wrote."""
    model = load(directory)
    if isinstance(model, Network):
        raise ModelError(f"{directory} holds a bare network; load it with legs.models.load_network")
    return model


def load(directory: str | Path) -> Predictor | Network:
    """A saved model: a :class:`Predictor` from training, or a bare network."""
    description, tensors = saving.load_directory(directory)
    if "task" not in description:
        return saving.load_network(directory)
    answerer: Network | ScatteringSVM | Blend
    try:
        neighbors = Neighbors.take(tensors)
        if "network" in description:
            answerer = saving.rebuild_network(description["network"], tensors)
        elif "blend" in description:
            from legs.training.auto import Blend

            task = Task.from_json(description["task"])
            answerer = Blend.rebuild(description["blend"], tensors, task)
        else:
            from legs.training.svm import ScatteringSVM

            answerer = ScatteringSVM.rebuild(description["svm"], tensors)
        trained_on = description.get("trained_on", "")
        decode_keys(trained_on)
        task = Task.from_json(description["task"])
        half_widths = tuple(w and float(w) for w in description.get("half_widths", ()))
        if half_widths and len(half_widths) != len(task.names):
            raise ValueError(f"{len(half_widths)} intervals for {len(task.names)} targets")
        return Predictor(
            answerer,
            task,
            tuple(description["features"]),
            tuple(description["feature_names"]),
            description["method"],
            {**description.get("input", {})},  # the first models have none
            trained_on,
            neighbors,
            half_widths,
        )
    except ModelError:
        raise
    # A description may hold anything, and each part of a model refuses it with its own error.
    except Exception as error:
        raise ModelError(f"{directory} is damaged: {error!r} is missing or wrong") from error


def check_finite(
    data: GraphDataset, result: Tensor, graphs: npt.NDArray[Any] | None = None
) -> Tensor:
    """Raises :class:`DataError` for the first graph whose row of ``result`` is not finite.

    ``graphs`` holds the graph of each row (default: all graphs).
    """
    for graph, reason in not_finite(data, result, graphs).items():
        raise DataError(f"{graph_name(data, graph)}: {reason}")
    return result


def not_finite(
    data: GraphDataset, result: Tensor, graphs: npt.NDArray[Any] | None = None
) -> dict[int, str]:
    """Graphs whose row of ``result`` is not finite, and why, for people."""
    reasons = {}
    for row in (~result.isfinite().all(1)).nonzero().flatten().tolist():
        graph = row if graphs is None else int(graphs[row])
        one = data[graph : graph + 1]
        column = int(one.x.abs().amax(0).argmax())
        name = repr(one.feature_names[column]) if one.feature_names else str(column)
        largest = f"{name}, up to {float(one.x[:, column].abs().max()):g}"
        if one.edge_weight is not None and len(one.edge_weight):
            largest += f"; heaviest edge {one.edge_weight.max():g}"
        reasons[graph] = (
            "the result is not finite: numbers overflow float32 "
            f"(largest node feature: {largest}); rescale them as in training"
        )
    return reasons


def graph_keys(data: GraphDataset) -> npt.NDArray[np.uint64]:
    """A key per graph: of its canonical SMILES, or of its nodes and edges in their order."""
    smiles = canonical_smiles(data.smiles) if data.smiles and all(data.smiles) else []
    texts = (text.encode("utf-8", "surrogateescape") for text in smiles)
    contents = texts if smiles else _contents(data)
    digests = b"".join(hashlib.sha256(content).digest()[:KEY_LENGTH] for content in contents)
    return np.frombuffer(digests, dtype="<u8")


def encode_keys(keys: npt.NDArray[np.uint64]) -> str:
    """Distinct keys as text, for a JSON file."""
    return base64.b64encode(np.unique(keys).astype("<u8").tobytes()).decode()


def decode_keys(text: str) -> npt.NDArray[np.uint64]:
    """Back from :func:`encode_keys`."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8")


def _contents(data: GraphDataset) -> Iterator[bytes]:
    # Rounded: another backend that computes the same features must not make another graph.
    x = (data.x.round(decimals=4) + 0.0).numpy()
    ptr, rowptr, col = (t.numpy() for t in (data.ptr, data.rowptr, data.col))
    for start, end in pairwise(ptr.tolist()):
        edges = slice(rowptr[start], rowptr[end])
        parts = [x[start:end], rowptr[start : end + 1] - rowptr[start], col[edges] - start]
        if data.edge_weight is not None:
            parts.append(data.edge_weight[edges].numpy())
        yield b"".join(part.tobytes() for part in parts)
