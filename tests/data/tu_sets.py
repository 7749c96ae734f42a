"""Small sets in TUDataset's layout, written for tests."""

from __future__ import annotations

import zipfile
from pathlib import Path

# A triangle and a path of two nodes, with node labels and attributes.
TWO_GRAPHS = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "0\n5\n0\n0\n2\n",
    "node_attributes": "0.5, 1\n1e3, 2\n-1, 3\n0, 4\n7, 5\n",
}


def write_folder(folder: Path, parts: dict[str, str | bytes], name: str = "SET") -> Path:
    """Writes ``NAME_part.txt`` for each part, and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in parts.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / f"{name}_{part}.txt").write_bytes(data)
    return folder


def write_zip(
    path: Path,
    parts: dict[str, str | bytes],
    name: str = "SET",
    inside: str | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """Writes a zip with the files in a folder ``inside`` (default: the set's name)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = name + "/" if inside is None else inside
    with zipfile.ZipFile(path, "w", compression) as archive:
        for part, text in parts.items():
            archive.writestr(f"{prefix}{name}_{part}.txt", text)
    return path
