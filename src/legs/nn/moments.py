from __future__ import annotations

from torch import Tensor
from torch_geometric.index import ptr2index
from torch_geometric.nn.aggr import Aggregation

from legs.functional.moments import MomentKind, moment_names, moments


class Moments(Aggregation):
    r"""Statistical moments over the nodes of each graph, as a PyG aggregation.

    ``"normalized"``: mean, variance, skewness and excess kurtosis, safe on constant signals (see
    :mod:`legs.functional.moments`); ``"mean"`` and ``"sum"``: mean or sum of
    :math:`|z_i|^q, q = 1, \dots, Q`.

    Args:
        kind: ``"normalized"`` (default), ``"mean"`` or ``"sum"``.
        order: number :math:`Q` of moments (default 4; at most 4 if normalized).

    Shapes:
        - **input:** ``[nodes, features]``, ``index`` ``[nodes]``
        - **output:** ``[graphs, features * order]``, the moments of a feature side by side

    >>> import torch
    >>> Moments("mean", order=2)(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 0]))
    tensor([[2., 5.]])
    """

    def __init__(self, kind: MomentKind = "normalized", order: int = 4) -> None:
        super().__init__()
        if kind not in ("normalized", "mean", "sum"):
            raise ValueError(f'kind must be "normalized", "mean" or "sum"; got {kind!r}')
        if order < 1 or (kind == "normalized" and order > 4):
            most = "between 1 and 4" if kind == "normalized" else "at least 1"
            raise ValueError(f"order of {kind} moments must be {most}; got {order}")
        self.kind: MomentKind = kind
        self.order = order

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the moments, in the order of the output."""
        return moment_names(self.kind, self.order)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
        energy: Tensor | None = None,
    ) -> Tensor:
        """Aggregates; ``energy`` is that of the signals that ``x`` came from.

        It sets the floor below which a variance counts as zero. Default: the mean square of ``x``.
        """
        if index is None and ptr is not None:
            index, dim_size = ptr2index(ptr), len(ptr) - 1
        x = x.movedim(dim, 0)
        out = moments(x, index, dim_size, kind=self.kind, order=self.order, energy=energy)
        return out.flatten(-2).movedim(0, dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind}, order={self.order})"
