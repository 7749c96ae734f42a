"""Results as text, for a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def shown(value: Any, form: str) -> str:
    """A value as text: no exponents, nothing where there is none.

    >>> shown(12345.6, "{:,.3g}"), shown(0.01234, "{:,.3g}"), shown(None, "{}")
    ('12,346', '0.0123', '')
    """
    if value is None:
        return ""
    if isinstance(value, float) and "g" in form and abs(value) >= 1000:
        return f"{value:,.0f}"
    return form.format(value)


def machine_line(result: Mapping[str, Any]) -> str:
    """Machine, threads, versions and date in a line."""
    versions = result["versions"]
    packages = ("torch-legs", "torch", "torch_geometric", "numba", "karateclub")
    known = ", ".join(f"{name} {versions[name]}" for name in packages if name in versions)
    threads = f"{result['threads']} thread{'s' * (result['threads'] != 1)}"
    return f"{result['machine']}, {threads}, {known}; {result['date']}"


def limits_line(result: Mapping[str, Any]) -> str:
    """The machine's limits in a line."""
    limits = result["limits"]
    return (
        f"Measured in the same run: a large copy moves {limits['copy'] / 1e9:,.3g} GB/s (read and "
        f"written), a product of float32 matrices does {limits['multiply'] / 1e9:,.4g} GFLOP/s"
    )
