from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch_geometric.nn.inits import reset


class Head(nn.Module):
    """Base of the heads, from graph features to predictions, which know how to be built again.

    Args:
        description: the arguments of the head, ``in_channels`` and ``out_channels`` among them.
    """

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__()
        self.description = description
        self.in_channels: int = description["in_channels"]
        self.out_channels: int = description["out_channels"]

    def reset_parameters(self) -> None:
        """Draws all weights again."""
        for child in self.children():
            reset(child)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """From ``[graphs, in_channels]`` to ``[graphs, out_channels]``.

        ``mask`` (``[graphs]``): the graphs whose statistics batch norm may see; default all.
        """
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """The arguments to build such a head again, as JSON values."""
        return dict(self.description)


def arguments(scope: dict[str, Any], more: str = "scattering") -> dict[str, Any]:
    """The arguments of ``__init__``, from ``locals()`` at its start; ``more`` are by keyword."""
    options = {name: value for name, value in scope.items() if name not in ("self", "__class__")}
    by_keyword = options.pop(more, {})
    return {**options, **by_keyword}
