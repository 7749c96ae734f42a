"""The state of a training run in one file, so that a killed run goes on where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from legs.io import parse_json
from legs.models.saving import ModelError
from legs.training.distributed import Group
from legs.training.sealed import read_sealed, write_sealed


@dataclass
class State:
    """Where a training run is: everything that the next epoch depends on.

    Args:
        epoch: number of epochs done.
        best_epoch: epoch of the best validation loss.
        best_loss: the best validation loss.
        history: a row for each epoch.
        tensors: by group (``network``, ``best``, ``adam``) and name.
    """

    epoch: int = 0
    best_epoch: int = 0
    best_loss: float = float("inf")
    history: list[dict[str, Any]] = field(default_factory=list)
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)


def save_state(path: Path, state: State, settings: dict[str, Any]) -> None:
    """Writes a state; ``settings`` is what must be the same when the run goes on."""
    known, flat = _parts(state)
    write_sealed(path, "state", {**known, "settings": plain(settings)}, flat)


def _parts(state: State) -> tuple[dict[str, Any], dict[str, Tensor]]:
    flat = {
        f"{group}/{name}": tensor.detach().cpu().contiguous().clone()
        for group, tensors in state.tensors.items()
        for name, tensor in tensors.items()
    }
    names = ("epoch", "best_epoch", "best_loss", "history")
    return {name: getattr(state, name) for name in names}, flat


def _joined(known: dict[str, Any], tensors: dict[str, Tensor]) -> State:
    history = list(known["history"])
    state = State(known["epoch"], known["best_epoch"], known["best_loss"], history)
    for key, tensor in tensors.items():
        group, name = key.split("/", 1)
        state.tensors.setdefault(group, {})[name] = tensor
    return state


def share_state(state: State | None, group: Group) -> State | None:
    """The state that process 0 read, in all processes of a group; they may have no file to read."""
    if group.size == 1:
        return state
    known, flat = ({}, {}) if state is None else _parts(state)
    known = parse_json(group.share(json.dumps(known).encode()))
    content = group.share(save_tensors(flat))
    return _joined(known, load_tensors(content)) if known else None


def load_state(path: Path, settings: dict[str, Any]) -> State | None:
    """Reads a state; ``None`` if there is none yet."""
    if not path.exists():
        return None
    known, tensors = read_sealed(path, "state")
    try:
        old, state = dict(known["settings"]), _joined(known, tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path} is no checkpoint: {error!r}; delete it to start anew") from error
    check_settings(path.parent, old, settings)
    return state


def check_settings(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """A run goes on with the settings it began with; the error names those that changed."""
    changed = _changed(old, plain(new))
    if changed:
        told = ", ".join(name[:60] for name in changed[:8]) + (", …" if len(changed) > 8 else "")
        raise ModelError(
            f"{folder} holds a run with other settings ({told}); "
            "choose another directory, or delete it to start anew"
        )


def plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as they come back from a file: JSON values, lists for tuples, text for objects."""
    values: dict[str, Any] = json.loads(json.dumps(settings, default=repr))
    return values


def _changed(old: Any, new: Any) -> list[str]:
    """Names of what differs; one level down where both are tables, as ``training.lr``."""
    names = []
    for key in sorted({*old, *new}):
        a, b = old.get(key), new.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            names += [f"{key}.{name}" for name in _changed(a, b)]
        elif a != b:
            names.append(key)
    return names
