"""What ``backend="auto"`` means within a block, for modules that a test does not build itself."""

from __future__ import annotations

from unittest import mock

from legs.kernels import op

LARGE = 2**62


def prefer(backend):
    """``"fused"`` wherever it applies, or ``"reference"`` always."""
    crossover = (0, LARGE) if backend == "fused" else (LARGE, 0)
    return mock.patch.dict(op.CROSSOVERS, dict.fromkeys(op.CROSSOVERS, crossover))
