from __future__ import annotations

from typing import Any

from torch import nn


class Head(nn.Module):
    """Base of the heads, from graph features to predictions, which know how to be built again."""

    description: dict[str, Any]

    def describe(self) -> dict[str, Any]:
        """The arguments to build such a head again, as JSON values."""
        return dict(self.description)


def arguments(scope: dict[str, Any], more: str = "scattering") -> dict[str, Any]:
    """The arguments of ``__init__``, from ``locals()`` at its start; ``more`` are by keyword."""
    options = {name: value for name, value in scope.items() if name not in ("self", "__class__")}
    by_keyword = options.pop(more, {})
    return {**options, **by_keyword}
