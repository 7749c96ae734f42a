from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from legs.models.network import Graphs, Network
from legs.nn import FCN, RBF, Attention, Moments, Scattering
from legs.nn.head import Head
from legs.nn.scattering import RENAMED

HEADS: dict[str, type[Head]] = {"FCN": FCN, "RBF": RBF, "Attention": Attention}


class LEGSNet(Network):
    """Scattering followed by a head: ``head(scattering(graph))``.

    Args:
        scattering: turns graphs into features (or nodes, if its ``aggr`` is ``None``).
        head: :class:`~legs.nn.FCN`, :class:`~legs.nn.RBF`, :class:`~legs.nn.Attention`, or any
            module from ``[graphs, scattering.out_channels]`` to ``[graphs, out_channels]``.

    >>> import torch
    >>> scattering = Scattering(in_channels=1)
    >>> model = LEGSNet(scattering, FCN(scattering.out_channels, 2)).eval()
    >>> model(torch.rand(2, 1), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 2])
    """

    takes_multiplicity = True

    def __init__(self, scattering: Scattering, head: nn.Module) -> None:
        super().__init__()
        expected = getattr(head, "in_channels", scattering.out_channels)
        if expected != scattering.out_channels:
            raise ValueError(
                f"head takes {expected} features, but scattering gives {scattering.out_channels}"
            )
        self.scattering = scattering
        self.head = head

    def _embed(self, graphs: Graphs) -> Tensor:
        powers, multiplicity = graphs[5:7]
        out: Tensor = self.scattering(*graphs[:5], powers=powers, multiplicity=multiplicity)
        return out

    @property
    def power_steps(self) -> int | None:
        return self.scattering.selection.steps

    def describe(self) -> dict[str, Any]:
        kind = type(self.head).__name__
        if not isinstance(self.head, Head) or HEADS.get(kind) is not type(self.head):
            raise ValueError(
                f"a network with a head of type {kind} cannot be saved; heads that can: "
                f"{', '.join(HEADS)}"
            )
        head = {"kind": kind, **self.head.describe()}
        return {"scattering": self.scattering.describe(), "head": head}

    @classmethod
    def rebuild(cls, description: dict[str, Any]) -> LEGSNet:
        options = {RENAMED.get(k, k): v for k, v in description["scattering"].items()}
        if isinstance(options["aggr"], dict):
            options["aggr"] = Moments(**options["aggr"])
        head = dict(description["head"])
        return cls(Scattering(**options), HEADS[head.pop("kind")](**head))
