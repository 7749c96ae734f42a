"""Results of a cross-validation on disk, group by group, so that a killed run goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from legs.files import FileError, check_digest, parse_json, with_digest, write_atomically, writing
from legs.models.saving import ModelError
from legs.training.checkpoint import check_settings, load_state, plain
from legs.training.sealed import read_sealed, write_sealed


@dataclass(frozen=True)
class Trained:
    """What is kept of one trained model.

    Args:
        answers: probabilities or numbers for its test graphs, ``[test graphs, outputs]``.
        validation_loss: the best.
        best_epoch: where that was.
        epochs: trained.
        parameters: number of learned parameters.
        seconds: its share of the time.
        way: ``"stacked"``, ``"single"`` or a method's own.
        scales: the selection matrix ``F`` of learned scales, ``[scales, steps]``; ``None`` where
            there are none, or where an older version kept the model.
        features: graph features of all graphs, ``[graphs, features]``, where they were asked for.
        measured: what measures found, by their names; empty where none were asked for.
    """

    answers: Tensor
    validation_loss: float
    best_epoch: int
    epochs: int
    parameters: int
    seconds: float
    way: str
    scales: Tensor | None = None
    features: Tensor | None = None
    measured: dict[str, Tensor] = field(default_factory=dict)


# Beside the answers, which have the model's number alone for a name.
_MORE = ("scales", "features")
_MEASURED = "measured."


class Store:
    """A directory of trained groups; in memory only without a directory.

    Args:
        directory: of the cross-validation, or ``None``.
        settings: what must be the same when a run goes on.
    """

    def __init__(self, directory: Path | None, settings: dict[str, Any]) -> None:
        self.directory = directory
        if directory is None:
            return
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
        file = directory / "settings.json"
        if file.exists():
            check_settings(directory, _read(file), settings)
        else:
            write_atomically(file, json.dumps(plain(settings), indent=1).encode())

    def file(self, group: str) -> Path | None:
        """Where a group of models is kept."""
        return self.directory and self.directory / "models" / f"{group}.bin"

    def partial(self, group: str, models: int) -> Path | None:
        """Where the state of a group in training is kept.

        Args:
            group: its name.
            models: in it. A state of another number, left by a run that cut its groups otherwise,
                is of no use and goes.
        """
        file = self.file(group)
        if file is None:
            return None
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        state = load_state(partial, {})
        if state is not None and len(state.history) != models:
            partial.unlink()
        return partial

    def notes(self) -> dict[str, str]:
        """Which way groups are trained."""
        file = self.directory and self.directory / "ways.json"
        if file is None or not file.exists():
            return {}
        known = _read(file)
        if "ways" not in known:  # written by an older version, without a checksum
            return known
        if set(known) != {"ways"} or not isinstance(known["ways"], dict):
            raise ModelError(f"{file} is damaged: it holds more than ways; delete it to start anew")
        return dict(known["ways"])

    def note(self, ways: dict[str, str]) -> None:
        """Keeps :meth:`notes`."""
        if self.directory is not None:
            write_atomically(
                self.directory / "ways.json", json.dumps(with_digest({"ways": ways})).encode()
            )

    def load(self, group: str) -> list[Trained] | None:
        """A finished group, or ``None``."""
        file = self.file(group)
        if file is None or not file.exists():
            return None
        known, tensors = read_sealed(file, "models", "delete it to do it again")
        try:
            return [_trained(row, k, tensors) for k, row in enumerate(known)]
        except (KeyError, TypeError) as error:
            raise ModelError(
                f"{file} holds no trained models: {error!r}; delete it to do it again"
            ) from error

    def save(self, group: str, models: list[Trained]) -> None:
        """Keeps a finished group."""
        file = self.file(group)
        if file is None:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        rows, tensors = [], {}
        for k, model in enumerate(models):
            known = {each.name: getattr(model, each.name) for each in fields(model)}
            tensors[str(k)] = known.pop("answers").contiguous()
            for name, tensor in known.pop("measured").items():
                tensors[f"{k}.{_MEASURED}{name}"] = tensor.contiguous()
            for name in _MORE:
                if (tensor := known.pop(name)) is not None:
                    tensors[f"{k}.{name}"] = tensor.contiguous()
            rows.append(known)
        write_sealed(file, "models", rows, tensors)
        file.with_suffix(".partial").unlink(missing_ok=True)


def _trained(row: dict[str, Any], k: int, tensors: dict[str, Tensor]) -> Trained:
    more: dict[str, Any] = {name: tensors.get(f"{k}.{name}") for name in _MORE}
    start = f"{k}.{_MEASURED}"
    more["measured"] = {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }
    return Trained(tensors[str(k)], **row, **more)


def _read(file: Path) -> dict[str, Any]:
    """A JSON file of a store, checked."""
    try:
        return check_digest(parse_json(file.read_bytes()), file)
    except FileError as error:
        raise ModelError(str(error)) from error
    except ValueError as error:
        raise ModelError(f"{file} is damaged: {error}; delete it to start anew") from error


def answers_of(models: list[Trained]) -> Tensor:
    """Answers of models with the same test graphs, ``[models, test graphs, outputs]``."""
    return torch.stack([model.answers for model in models])
