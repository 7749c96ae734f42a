"""What is imported with what: nobody waits for a library that is not used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    *("IPython", "jinja2", "joblib", "matplotlib", "networkx", "numba", "numpy", "openpyxl"),
    *("pandas", "plotly", "pyarrow", "ray", "rdkit", "rich", "scipy", "sklearn", "sympy", "torch"),
    *("torch_geometric", "tqdm", "typer", "yaml"),
}


def imported(code: str) -> set[str]:
    """Packages in memory after some code, in a process of its own."""
    code += "\nimport sys; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import legs", "import legs, legs.cli; legs.__version__"])
def test_the_package_alone_is_light(code: str) -> None:
    assert not imported(code) & (HEAVY - {"typer", "rich"})


def test_scattering_imports_little_beside_torch_and_pyg() -> None:
    base = imported("import torch, torch_geometric, scipy.sparse")
    more = imported("from legs import Scattering") - base
    assert not more & HEAVY
    names = "import sys; from legs import Scattering\n"
    names += "print(*{name for name in sys.modules if name.startswith('legs.')})"
    done = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True)
    parts = {name.split(".")[1] for name in done.stdout.split()}
    assert parts == {"functional", "kernels", "nn"}
