"""Networks on disk: a JSON file that says how to rebuild one, a safetensors file of its weights."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from legs.models.network import Network

FORMAT = 1
WEIGHTS = "weights.safetensors"
DESCRIPTION = "model.json"


class ModelError(ValueError):
    """A model directory that cannot be used; the message says why."""


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, flushes and renames it: all of it or nothing."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            # mkstemp's files are their owner's alone; models are passed around.
            os.fchmod(handle, 0o666 & ~_umask())
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def versions() -> dict[str, str]:
    """Versions of the packages that results depend on."""
    found = {}
    for package in ("torch-legs", "torch", "torch_geometric", "numpy", "rdkit"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def save_directory(
    directory: str | Path, description: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Writes tensors, and a description that names their checksum, into a directory."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    content = save_tensors({k: v.detach().cpu().contiguous() for k, v in tensors.items()})
    known = {
        "format": FORMAT,
        **description,
        "versions": versions(),
        "sha256": {WEIGHTS: hashlib.sha256(content).hexdigest()},
    }
    write_atomically(folder / WEIGHTS, content)
    # The description comes last: a directory without it holds no model.
    write_atomically(folder / DESCRIPTION, json.dumps(known, indent=1).encode())


def load_directory(directory: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reads what :func:`save_directory` wrote, checked."""
    folder = Path(directory)
    if not (folder / DESCRIPTION).is_file():
        raise ModelError(f"{folder} holds no model: {DESCRIPTION} is missing")
    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        found, expected = description["format"], description["sha256"][WEIGHTS]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder / DESCRIPTION} is damaged: {error}") from error
    if found != FORMAT:
        writer = description.get("versions", {}).get("torch-legs", "an unknown version")
        raise ModelError(
            f"{folder} is in format {found}, written by torch-legs {writer}; this version reads "
            f"format {FORMAT}"
        )
    try:
        content = (folder / WEIGHTS).read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{folder} holds no weights: {WEIGHTS} is missing") from None
    if hashlib.sha256(content).hexdigest() != expected:
        raise ModelError(f"{folder / WEIGHTS} is damaged: its checksum is wrong")
    try:
        return description, load_tensors(content)
    except SafetensorError as error:
        raise ModelError(f"{folder / WEIGHTS} is damaged: {error}") from error


def describe_network(network: Network) -> dict[str, Any]:
    """JSON from which :func:`rebuild_network` makes a network of the same architecture."""
    return {"kind": type(network).__name__, "description": network.describe()}


def rebuild_network(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Network:
    """The network that was described, with its weights, in evaluation mode."""
    try:
        network = Network.kinds[described["kind"]].rebuild(described["description"])
        network.load_state_dict(dict(tensors))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"the model cannot be rebuilt: {error}") from error
    return network.eval()


def save_network(network: Network, directory: str | Path) -> None:
    """Writes a network into a directory."""
    save_directory(directory, {"network": describe_network(network)}, network.state_dict())


def load_network(directory: str | Path) -> Network:
    """Reads a network that :meth:`Network.save` wrote.

    >>> import tempfile
    >>> import torch
    >>> from legs.models import create
    >>> network = create("legs-fcn", 2, 3).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     network.save(folder)
    ...     copy = load_network(folder)
    >>> x, edge_index = torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])
    >>> torch.equal(copy(x, edge_index), network(x, edge_index))
    True
    """
    description, tensors = load_directory(directory)
    if "network" not in description:
        raise ModelError(f"{directory} holds no network")
    return rebuild_network(description["network"], tensors)
