"""The state of a training run in one checksummed file, so that a killed run resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from legs import io
from legs.models.saving import ModelError

DIGEST = 32  # bytes of SHA-256, in front of a safetensors file
AGAIN = "delete it to start again"
_VALUES = ("epoch", "best_epoch", "best_loss", "history")


@dataclass
class State:
    """Everything that the next epoch of a training run depends on."""

    epoch: int = 0  # epochs done
    best_epoch: int = 0  # of the best validation loss
    best_loss: float = float("inf")
    history: list[dict[str, Any]] = field(default_factory=list)  # a row per epoch
    # By group ("network", "best", "adam") and name.
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)


def save_state(path: Path, state: State, settings: dict[str, Any]) -> None:
    """Writes a state; ``settings`` is what must be the same when the run resumes."""
    tensors = {
        f"{group}/{name}": tensor.detach().cpu().contiguous().clone()
        for group, named in state.tensors.items()
        for name, tensor in named.items()
    }
    values = {name: getattr(state, name) for name in _VALUES}
    write_checksummed(path, "state", {**values, "settings": plain(settings)}, tensors)


def load_state(path: Path, settings: dict[str, Any]) -> State | None:
    """Reads a state; ``None`` if there is none yet."""
    if not path.exists():
        return None
    values, tensors = read_checksummed(path, "state")
    try:
        old = dict(values["settings"])
        state = State(**{name: values[name] for name in _VALUES})
        state.history = list(state.history)
        for key, tensor in tensors.items():
            group, name = key.split("/", 1)
            state.tensors.setdefault(group, {})[name] = tensor
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path} is no checkpoint: {error!r}; {AGAIN}") from error
    check_settings(path.parent, old, settings)
    return state


def check_settings(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """A run resumes with the settings it began with; the error names those that changed."""
    changed = _changed(old, plain(new))
    if changed:
        names = ", ".join(name[:60] for name in changed[:8]) + (", …" if len(changed) > 8 else "")
        raise ModelError(
            f"{folder} holds a run with other settings ({names}); choose another directory, or "
            f"{AGAIN}"
        )


def keep_settings(folder: Path, settings: dict[str, Any], name: str = "settings.json") -> None:
    """Writes a file of settings; one that is there must hold the same."""
    file = folder / name
    if file.exists():
        check_settings(folder, read_json(file), settings)
        return
    with io.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    io.write_atomically(file, json.dumps(plain(settings), indent=1).encode())


def read_json(file: Path, advice: str = AGAIN) -> dict[str, Any]:
    """A JSON file with a table, checked where it has a checksum."""
    try:
        return io.check_digest(io.parse_json(io.read_file(file)), file, advice)
    except io.FileError as error:
        raise ModelError(str(error)) from error
    except ValueError as error:
        raise ModelError(f"{file} is damaged: {error}; {advice}") from error


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


def write_checksummed(path: Path, key: str, values: Any, tensors: Mapping[str, Tensor]) -> None:
    """Writes JSON ``values`` under the name ``key``, and contiguous CPU tensors: all or nothing."""
    content = save_tensors(dict(tensors), metadata={key: json.dumps(values)})
    io.write_atomically(path, hashlib.sha256(content).digest() + content)


def read_checksummed(path: Path, key: str, advice: str = AGAIN) -> tuple[Any, dict[str, Tensor]]:
    """Values and tensors as :func:`write_checksummed` wrote them; ``advice`` ends an error."""
    try:
        whole = io.read_file(path)
    except io.FileError as error:
        raise ModelError(f"{error}; {advice}") from error
    digest, content = whole[:DIGEST], whole[DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        raise ModelError(f"{path} is damaged: its checksum is wrong; {advice}")
    try:
        tensors = load_tensors(content)
        size = int.from_bytes(content[:8], "little")
        header = io.parse_json(content[8 : 8 + size])
        return io.parse_json(header["__metadata__"][key]), tensors
    # A file with a right checksum may still be another program's.
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ModelError(f"{path} is damaged: {error}; {advice}") from error
