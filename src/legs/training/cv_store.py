"""Results of a cross-validation on disk, group by group, so that a killed run goes on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from legs.models.saving import ModelError, write_atomically


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
    """

    answers: Tensor
    validation_loss: float
    best_epoch: int
    epochs: int
    parameters: int
    seconds: float
    way: str


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
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "settings.json"
        if file.exists():
            old = json.loads(file.read_text(encoding="utf-8"))
            changed = sorted(k for k in {*old, *settings} if old.get(k) != settings.get(k))
            if changed:
                raise ModelError(
                    f"{directory} holds a run with other settings ({', '.join(changed)}); "
                    "choose another directory, or delete it to start anew"
                )
        else:
            write_atomically(file, json.dumps(settings, indent=1).encode())

    def file(self, group: str) -> Path | None:
        """Where a group of models is kept."""
        return self.directory and self.directory / "models" / f"{group}.bin"

    def partial(self, group: str) -> Path | None:
        """Where the state of a group in training is kept."""
        file = self.file(group)
        if file is None:
            return None
        file.parent.mkdir(parents=True, exist_ok=True)
        return file.with_suffix(".partial")

    def notes(self) -> dict[str, str]:
        """Which way groups are trained."""
        file = self.directory and self.directory / "ways.json"
        if file is None or not file.exists():
            return {}
        return dict(json.loads(file.read_text(encoding="utf-8")))

    def note(self, ways: dict[str, str]) -> None:
        """Keeps :meth:`notes`."""
        if self.directory is not None:
            write_atomically(self.directory / "ways.json", json.dumps(ways).encode())

    def load(self, group: str) -> list[Trained] | None:
        """A finished group, or ``None``."""
        file = self.file(group)
        if file is None or not file.exists():
            return None
        content = file.read_bytes()
        digest, content = content[:32], content[32:]
        if hashlib.sha256(content).digest() != digest:
            raise ModelError(f"{file} is damaged: its checksum is wrong; delete it to do it again")
        try:
            tensors = load_tensors(content)
            size = int.from_bytes(content[:8], "little")
            known = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["models"])
        except (SafetensorError, ValueError, KeyError) as error:
            raise ModelError(f"{file} is damaged: {error}; delete it to do it again") from error
        return [Trained(tensors[str(k)], **row) for k, row in enumerate(known)]

    def save(self, group: str, models: list[Trained]) -> None:
        """Keeps a finished group."""
        file = self.file(group)
        if file is None:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = [{k: v for k, v in asdict(m).items() if k != "answers"} for m in models]
        tensors = {str(k): m.answers.contiguous() for k, m in enumerate(models)}
        content = save_tensors(tensors, metadata={"models": json.dumps(rows)})
        write_atomically(file, hashlib.sha256(content).digest() + content)
        file.with_suffix(".partial").unlink(missing_ok=True)


def answers_of(models: list[Trained]) -> Tensor:
    """Answers of models with the same test graphs, ``[models, test graphs, outputs]``."""
    return torch.stack([model.answers for model in models])
