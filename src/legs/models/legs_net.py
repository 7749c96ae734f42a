from __future__ import annotations

from torch import Tensor, nn

from legs.nn import Scattering


class LEGSNet(nn.Module):
    """Scattering followed by a head: ``head(scattering(graph))``.

    Args:
        scattering: turns graphs into features (or nodes, if its ``aggr`` is ``None``).
        head: :class:`~legs.nn.FCN`, :class:`~legs.nn.RBF`, :class:`~legs.nn.Attention`, or any
            module from ``[graphs, scattering.out_channels]`` to ``[graphs, out_channels]``.

    >>> import torch
    >>> from legs.nn import FCN
    >>> scattering = Scattering(in_channels=1)
    >>> model = LEGSNet(scattering, FCN(scattering.out_channels, 2)).eval()
    >>> model(torch.rand(2, 1), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 2])
    """

    def __init__(self, scattering: Scattering, head: nn.Module) -> None:
        super().__init__()
        expected = getattr(head, "in_channels", scattering.out_channels)
        if expected != scattering.out_channels:
            raise ValueError(
                f"head takes {expected} features, but scattering gives {scattering.out_channels}"
            )
        self.scattering = scattering
        self.head = head

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.scattering.reset_parameters()
        reset = getattr(self.head, "reset_parameters", None)
        if callable(reset):
            reset()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Predictions, ``[graphs, out_channels]``."""
        out: Tensor = self.head(self.scattering(x, edge_index, edge_weight, batch, batch_size))
        return out
