"""Finished models of a cross-validation, in memory and on disk, so that a killed run resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from legs.io import has_keys
from legs.models.saving import ModelError
from legs.training import checkpoint


@dataclass(frozen=True)
class Trained:
    """What is kept of one trained model."""

    answers: Tensor  # probabilities or predictions for its test graphs, [test graphs, outputs]
    validation_loss: float  # the best
    best_epoch: int
    epochs: int
    parameters: int  # learned
    seconds: float  # its share of the time
    strategy: str  # "stacked", "sequential" or "svm"
    measured: dict[str, Tensor] = field(default_factory=dict)  # results of measures


class Store:
    """Finished groups of models by name, in a directory if there is one.

    ``settings`` must be the same when a run resumes.
    """

    def __init__(self, directory: Path | None, settings: dict[str, Any]) -> None:
        self.directory = directory
        self._finished: dict[str, list[Trained]] = {}
        if directory is not None:
            checkpoint.keep_settings(directory, settings)

    def file(self, group: str) -> Path | None:
        """The file of a group of models."""
        return self.directory and self.directory / "models" / f"{group}.bin"

    def partial(self, group: str, models: int) -> Path | None:
        """The file for the state of a group in training.

        A state of another number of models, left by a run with other groups, is deleted, and so is
        one of version 0.1.0.
        """
        file = self.file(group)
        if file is None:
            return None
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        state = checkpoint.load_state(partial, {})
        if state and (len(state.history) != models or "parameters" in state.tensors):
            partial.unlink()
        return partial

    def load(self, group: str) -> list[Trained] | None:
        """A finished group, or ``None``."""
        file = self.file(group)
        if group not in self._finished and file is not None and file.exists():
            advice = "delete it to train it again"
            rows, tensors = checkpoint.read_checksummed(file, "models", advice)
            try:
                self._finished[group] = [_trained(row, k, tensors) for k, row in enumerate(rows)]
            except (KeyError, TypeError, ValueError) as error:
                raise ModelError(f"{file} holds no trained models: {error!r}; {advice}") from error
        return self._finished.get(group)

    def load_all(self, names: Sequence[str]) -> list[Trained | None]:
        """Models of files of one each; ``None`` where they are not finished.

        A file of version 0.1.0 may hold many: the next is then named after the first that it does
        not hold.
        """
        models: list[Trained | None] = []
        while len(models) < len(names):
            models += self.load(names[len(models)]) or [None]
        return models[: len(names)]

    def save(self, name: str, model: Trained) -> None:
        """Keeps a finished model; states of its training are deleted."""
        self._finished[name] = [model]
        file = self.file(name)
        if file is None:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        row = dict(vars(model))
        tensors = {f"0.{measure}": tensor for measure, tensor in row.pop("measured").items()}
        tensors["0"] = row.pop("answers")
        tensors = {key: tensor.contiguous() for key, tensor in tensors.items()}
        checkpoint.write_checksummed(file, "models", [row], tensors)
        for partial in file.parent.glob(f"{name}[.-]*partial"):
            partial.unlink()


def is_store(folder: Path) -> bool:
    """Whether a folder is that of a cross-validation."""
    return has_keys(folder / "settings.json", ("data", "options", "model_options", "splits"))


def _trained(row: dict[str, Any], k: int, tensors: dict[str, Tensor]) -> Trained:
    """A model from its row and the tensors of its file, those of model ``k`` among them."""
    row = dict(row)
    if "way" in row:  # version 0.1.0
        way = row.pop("way")
        row["strategy"] = "sequential" if way == "single" else way
    measured = {
        name.partition(".")[2].removeprefix("measured."): tensor  # once the name of most measures
        for name, tensor in tensors.items()
        if name.startswith(f"{k}.")
    }
    return Trained(tensors[str(k)], **row, measured=measured)
