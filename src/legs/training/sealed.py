"""Tensors and what is known about them in one file, under a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from legs.io import FileError, parse_json, read_file, write_atomically
from legs.models.saving import ModelError

DIGEST = 32  # bytes of SHA-256, in front of a safetensors file


def write_sealed(path: Path, key: str, known: Any, tensors: Mapping[str, Tensor]) -> None:
    """Writes a file, all of it or nothing.

    Args:
        path: of the file.
        key: the name of ``known`` in the file; a reader asks for the same.
        known: JSON values.
        tensors: on the CPU, contiguous.

    >>> import tempfile
    >>> import torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "some.bin"
    ...     write_sealed(path, "row", {"epoch": 3}, {"weight": torch.ones(2)})
    ...     read_sealed(path, "row")
    ({'epoch': 3}, {'weight': tensor([1., 1.])})
    """
    content = save_tensors(dict(tensors), metadata={key: json.dumps(known)})
    write_atomically(path, hashlib.sha256(content).digest() + content)


def read_sealed(
    path: Path, key: str, advice: str = "delete it to start anew"
) -> tuple[Any, dict[str, Tensor]]:
    """Reads what :func:`write_sealed` wrote.

    Args:
        path: of a file that exists.
        key: as it was written.
        advice: the end of the error, if the file is damaged.

    Returns:
        What is known, and the tensors.
    """
    try:
        whole = read_file(path)
    except FileError as error:
        raise ModelError(f"{error}; {advice}") from error
    digest, content = whole[:DIGEST], whole[DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        raise ModelError(f"{path} is damaged: its checksum is wrong; {advice}")
    try:
        tensors = load_tensors(content)
        size = int.from_bytes(content[:8], "little")
        header = parse_json(content[8 : 8 + size])
        return parse_json(header["__metadata__"][key]), tensors
    # A file with a right checksum may still be another program's.
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ModelError(f"{path} is damaged: {error}; {advice}") from error
