"""A fitted model that takes raw input: what is saved, loaded and asked for predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.validate import check_values
from legs.models.network import Network
from legs.models.saving import (
    ModelError,
    describe_network,
    load_directory,
    rebuild_network,
    save_directory,
)
from legs.training.finite import check_finite
from legs.training.graph_keys import decode_keys, graph_keys
from legs.training.inputs import Inputs, embed, predict
from legs.training.task import Task


class Answerer(Protocol):
    """What a predictor asks: a network, or a method that is none."""

    def answers(self, data: GraphDataset, task: Task, batch_size: int) -> Tensor:
        """Class probabilities or numbers, ``[graphs, classes or targets]``."""

    def embedding(self, data: GraphDataset) -> Tensor:
        """Features of graphs, ``[graphs, features]``."""

    def saved(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Description and tensors to rebuild it from."""

    def num_parameters(self) -> int:
        """Number of learned parameters."""


@dataclass(frozen=True)
class NetworkAnswerer:
    """A trained network."""

    network: Network

    def answers(self, data: GraphDataset, task: Task, batch_size: int) -> Tensor:
        inputs = Inputs(data, self.network, self.device, keep=False)
        out = predict(inputs, self.network, torch.arange(len(data), device=self.device), batch_size)
        if out.shape[1] != len(task.names):
            raise ModelError(
                f"the model is damaged: {len(task.names):,} names for {out.shape[1]} outputs"
            )
        return task.answers(out.float().cpu())

    def embedding(self, data: GraphDataset) -> Tensor:
        return embed(self.network, data.to(self.device)).cpu()

    @property
    def device(self) -> torch.device:
        """Where the network is, and computes."""
        return next(self.network.parameters()).device

    def saved(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {"network": describe_network(self.network)}, dict(self.network.state_dict())

    def num_parameters(self) -> int:
        return self.network.num_parameters()


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
            (:mod:`legs.training.graph_keys`); empty if unknown.
    """

    answerer: Answerer
    task: Task
    features: tuple[str, ...]
    feature_names: tuple[str, ...]
    method: str
    input: dict[str, Any] = field(default_factory=dict)
    trained_on: str = ""

    @property
    def network(self) -> Network:
        """The trained network."""
        if not isinstance(self.answerer, NetworkAnswerer):
            raise ModelError(f"{self.method} is not a network")
        return self.answerer.network

    def num_parameters(self) -> int:
        """Number of learned parameters."""
        return self.answerer.num_parameters()

    def to(self, device: torch.device | str) -> Predictor:
        """Moves the network to a device, where it computes; results stay on the CPU."""
        if isinstance(self.answerer, NetworkAnswerer):
            self.answerer.network.to(device)
        return self

    def check(self, data: GraphDataset) -> None:
        """Raises :class:`~legs.data.errors.DataError` unless the node features are the model's."""
        if data.feature_names != self.feature_names:
            raise DataError(
                f"the model reads {_listed(self.feature_names)}, but the data has "
                f"{_listed(data.feature_names)}"
            )

    def predict(self, data: GraphDataset, batch_size: int = 512) -> Tensor:
        """Class probabilities, or numbers in original units, ``[graphs, classes or targets]``.

        Raises:
            DataError: other node features than the model's, or a result that is not finite.
        """
        self.check(data)
        check_values(data)
        return check_finite(data, self.answerer.answers(data, self.task, batch_size))

    def embed(self, data: GraphDataset) -> Tensor:
        """The features that the model's head reads, ``[graphs, features]``.

        Raises:
            DataError: as in :meth:`predict`.
        """
        self.check(data)
        check_values(data)
        return check_finite(data, self.answerer.embedding(data))

    def in_training(self, data: GraphDataset) -> Tensor | None:
        """Which graphs it was trained or validated on, ``[graphs]``; ``None`` if unknown."""
        if not self.trained_on:
            return None
        return torch.from_numpy(np.isin(graph_keys(data), decode_keys(self.trained_on)))

    def save(self, directory: str | Path) -> None:
        """Writes the model into a directory; :func:`legs.load` reads it."""
        described, tensors = self.answerer.saved()
        description = {
            "method": self.method,
            "task": self.task.to_json(),
            "features": list(self.features),
            "feature_names": list(self.feature_names),
            "input": self.input,
            **({"trained_on": self.trained_on} if self.trained_on else {}),
            **described,
        }
        save_directory(directory, description, tensors)


def load_predictor(directory: str | Path) -> Predictor:
    """Reads what :meth:`Predictor.save` wrote."""
    description, tensors = load_directory(directory)
    if "task" not in description:
        raise ModelError(f"{directory} holds a bare network; load it with legs.models.load_network")
    try:
        if "network" in description:
            answerer: Answerer = NetworkAnswerer(rebuild_network(description["network"], tensors))
        else:
            from legs.training.svm import ScatteringSVM

            answerer = ScatteringSVM.rebuild(description["svm"], tensors)
        return Predictor(
            answerer,
            Task.from_json(description["task"]),
            tuple(description["features"]),
            tuple(description["feature_names"]),
            description["method"],
            {**description.get("input", {})},  # models saved before it was noted have none
            _checked_keys(description.get("trained_on", "")),
        )
    except ModelError:
        raise
    # A description may hold anything, and each part of a model has its own way to refuse it.
    except Exception as error:
        raise ModelError(f"{directory} is damaged: {error!r} is missing or wrong") from error


def load(directory: str | Path) -> Predictor | Network:
    """A saved model: a :class:`Predictor` from training, or a bare network."""
    description, _ = load_directory(directory)
    if "task" in description:
        return load_predictor(directory)
    from legs.models.saving import load_network

    return load_network(directory)


def _checked_keys(text: str) -> str:
    decode_keys(text)
    return text


def _listed(names: tuple[str, ...], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return f"{len(names)} node features ({shown}{', …' if len(names) > most else ''})"
