"""Networks on disk: a JSON file that says how to rebuild one, a safetensors file of its weights."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from legs import io
from legs.models.network import Network

FORMAT = 1
LARGEST_DESCRIPTION = 64 << 20  # bytes
WEIGHTS = "weights.safetensors"
DESCRIPTION = "model.json"
# New weights until the description that belongs to them is in place; named by their digest.
_STAGED = re.compile(r"weights\.([0-9a-f]{16})\.safetensors")
# Bounds, checked before anything is allocated: a few bytes of JSON, or an option on the command
# line, can ask for terabytes of weights or for hours of listing paths. Whole numbers without a
# bound of their own have the last.
_MOST = {"order": 16, "num_layers": 1_000, "num_scales": 1_000, "state_channels": 10_000}
_MOST_ANY = 10_000_000
_OPTIONAL = {"reach"}  # absent from older models


class ModelError(io.FileError):
    """A model directory that cannot be used; the message says why."""


def versions() -> dict[str, str]:
    """Versions of the packages that results depend on."""
    installed = {}
    for package in ("torch-legs", "torch", "torch_geometric", "numpy", "rdkit"):
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


def save_directory(
    directory: str | Path, description: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Writes tensors, and a description with their checksum and its own, into a directory.

    A process that is killed at any moment leaves a model that loads: the old one, or the new one.
    """
    folder = Path(directory)
    _check_finite(folder, tensors)
    with io.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    content = save_tensors({k: v.detach().cpu().contiguous() for k, v in tensors.items()})
    # As a reader finds it: tuples are lists there.
    plain = json.loads(json.dumps({"format": FORMAT, **description, "versions": versions()}))
    digests = {WEIGHTS: _digest(content), DESCRIPTION: io.digest_of(plain)}
    text = json.dumps({**plain, "sha256": digests}, indent=1).encode()
    staged = folder / f"weights.{digests[WEIGHTS][:16]}.safetensors"
    # The description decides which weights are read: the old ones stay until it is replaced.
    io.write_atomically(staged, content)
    try:
        io.write_atomically(folder / DESCRIPTION, text)
    except OSError:
        staged.unlink(missing_ok=True)
        raise
    with io.writing(folder):
        os.replace(staged, folder / WEIGHTS)
        io.sync_folder(folder)
        for path in [*folder.iterdir()]:  # what a killed save left
            match = _STAGED.fullmatch(path.name)
            if match and path.is_file() and _digest(path.read_bytes()).startswith(match[1]):
                path.unlink()


def load_directory(directory: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reads what :func:`save_directory` wrote, checked."""
    folder = Path(directory)
    if not (folder / DESCRIPTION).is_file():
        raise ModelError(f"{folder} holds no model: {DESCRIPTION} is missing")
    with _reading(folder / DESCRIPTION):
        description = io.parse_json(io.read_file(folder / DESCRIPTION, LARGEST_DESCRIPTION))
        file_format, digests = description["format"], description["sha256"]
        expected = digests[WEIGHTS]
    if file_format != FORMAT:
        about = description.get("versions")
        writer = about.get("torch-legs") if isinstance(about, dict) else None
        raise ModelError(
            f"{folder} is in format {file_format}, written by torch-legs "
            f"{writer or 'of an unknown version'}; this version reads format {FORMAT}"
        )
    rest = {name: value for name, value in description.items() if name != "sha256"}
    # Models saved before the description had a checksum have none.
    if digests.get(DESCRIPTION, digest := io.digest_of(rest)) != digest:
        raise ModelError(f"{folder / DESCRIPTION} is damaged: its checksum is wrong")
    content = _read_weights(folder, str(expected))
    with _reading(folder / WEIGHTS):
        tensors = load_tensors(content)
    _check_finite(folder, tensors)
    return description, tensors


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raises :class:`ModelError` for whatever is wrong with a file."""
    try:
        yield
    except io.FileError as error:
        raise ModelError(str(error)) from error
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ModelError(f"{path} is damaged: {_short(error)}") from error


def _check_finite(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        # Batch norm without a bound has an infinite one; missing targets of an SVM are NaN.
        last = name.rpartition(".")[2]
        usual = {"reach": tensor.isinf(), "target": tensor.isnan()}.get(last, False)
        if not bool((tensor.isfinite() | usual).all()):
            raise ModelError(
                f"{folder}: the weights {name!r} are not finite; such a model predicts nothing. "
                "Train it again"
            )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_weights(folder: Path, digest: str) -> bytes:
    """The weights with this digest; staged ones count, if the save was killed before it ended."""
    staged = f"weights.{digest[:16]}.safetensors"
    names = [WEIGHTS, *([staged] if _STAGED.fullmatch(staged) else [])]
    files = [folder / name for name in names if (folder / name).exists()]
    if not files:
        raise ModelError(f"{folder} holds no weights: {WEIGHTS} is missing")
    for path in files:
        with _reading(path):
            content = io.read_file(path)
        if _digest(content) == digest:
            return content
    raise ModelError(f"{files[0]} is damaged: its checksum is wrong")


def check_sizes(described: Any) -> None:
    """Raises ``ValueError`` for numbers in a description or in options that no model has.

    >>> check_sizes({"head": {"hidden_channels": 10**12}})
    Traceback (most recent call last):
    ...
    ValueError: hidden_channels is 1000000000000, more than any model has
    """
    waiting: list[tuple[str, Any]] = [("a size", described)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(name, inner) for inner in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value}, not a finite number")
        elif isinstance(value, int) and abs(value) > _MOST.get(name, _MOST_ANY):
            raise ValueError(f"{name} is {value}, more than any model has")


def check_shapes(make: Callable[[], nn.Module], tensors: Mapping[str, Tensor]) -> None:
    """Raises ``ValueError`` unless the network that ``make`` builds has the shapes of ``tensors``.

    It is built without memory for its weights.
    """
    with torch.device("meta"):
        expected = {name: list(tensor.shape) for name, tensor in make().state_dict().items()}
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | shapes.keys()):
        if name not in expected:
            raise ValueError(f"there are weights {name}, which the network lacks")
        if name not in shapes and name.rpartition(".")[2] not in _OPTIONAL:
            raise ValueError(f"the weights {name} are missing")
        if (shape := shapes.get(name, expected[name])) != expected[name]:
            raise ValueError(f"the weights {name} have the shape {shape}, not {expected[name]}")


def describe_network(network: Network) -> dict[str, Any]:
    """JSON from which :func:`rebuild_network` makes a network of the same architecture."""
    return {"kind": type(network).__name__, "description": network.describe()}


def rebuild_network(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Network:
    """The network that was described, with its weights, in evaluation mode."""
    try:
        kind, description = Network.kinds[described["kind"]], described["description"]
        check_sizes(description)
        check_shapes(lambda: kind.rebuild(description), tensors)
        network = kind.rebuild(description)
        network.load_state_dict(dict(tensors))
    # Descriptions may hold anything, and every layer refuses it with its own error.
    except Exception as error:
        raise ModelError(f"the model cannot be rebuilt: {_short(error)}") from error
    return network.eval()


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


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
