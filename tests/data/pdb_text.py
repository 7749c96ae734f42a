"""Made-up structures as text, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np


def chain(length: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """A made-up chain: steps of 3.8 Å that turn slowly."""
    steps = np.cumsum(np.random.default_rng(seed).normal(size=(length, 3)), axis=0)
    return np.cumsum(3.8 * steps / np.linalg.norm(steps, axis=1, keepdims=True), axis=0)


def pdb_lines(coords: Any, *, first: int = 1, chain: str = "A", atom: str = "CA") -> list[str]:
    """ATOM records of a chain: beside the atom itself one that no graph should hold."""
    lines = []
    residue, other = ("ALA", "CB") if atom == "CA" else ("  G", "P")
    for i, xyz in enumerate(coords):
        for name, shift in ((atom, 0.0), (other, 1.5)):
            x, y, z = xyz + shift
            lines.append(
                f"ATOM  {len(lines) + 1:5d}  {name:<3} {residue} {chain}{first + i:4d}    "
                f"{x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00"
            )
    return lines
