"""How kernels are compiled: machine code on disk belongs to one state of the sources."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

import legs

pytest.importorskip("numba", reason="compiles the kernels")

from legs.kernels.cpu import graph, jit

PACKAGE = Path(legs.__file__).parent


def key_of(package: Path) -> str:
    """The checksum as a copy of the package computes it."""
    spec = importlib.util.spec_from_file_location("copied", package / "kernels" / "cpu" / "jit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.source_checksum()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("functional/moments.py", "RELATIVE_FLOOR = 1e-6", "RELATIVE_FLOOR = 1e-5"),
        ("kernels/cpu/graph.py", "TOLERANCE = 1e-5", "TOLERANCE = 1e-4"),
        ("kernels/cpu/simd.py", "def at(", "def att("),
        ("kernels/deeper/new.py", "", "SIZE = 1"),
    ],
)
def test_any_edited_source_gets_another_key(tmp_path, name, old, new):
    copied = tmp_path / "legs"
    for part in ("functional", "kernels"):
        shutil.copytree(PACKAGE / part, copied / part, ignore=shutil.ignore_patterns("__pycache__"))
    before = key_of(copied)
    assert before == jit.source_checksum()  # wherever the package is installed
    file = copied / name
    file.parent.mkdir(exist_ok=True)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    assert old in text
    file.write_text(text.replace(old, new) if old else new, encoding="utf-8")
    assert key_of(copied) != before


def test_machine_code_is_stored_under_that_key():
    stored = graph._sort_edges._cache._impl.filename_base
    assert jit.source_checksum() in stored
