from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from legs.functional import graph_sum

READOUTS = ("mean", "max", "sum", "logsum", "std")


class Readout(nn.Module):
    r"""Statistics of node states over each graph, side by side.

    ``"mean"``, ``"max"``, ``"sum"``, ``"std"`` (population), and ``"logsum"``,
    :math:`\operatorname{sign}(s) \log(1 + |s|)` of the sum :math:`s`, which stays moderate on large
    graphs. Maps over models (:func:`torch.func.vmap`).

    Args:
        statistics: some of these, or one (default: mean, maximum and log-sum).

    Shapes:
        - **input:** ``[nodes, channels]``, ``batch`` ``[nodes]``, ``batch_size``; of merged nodes
          their ``multiplicity`` ``[nodes]`` (:func:`legs.data.merge_equivalent`)
        - **output:** ``[graphs, len(statistics) * channels]``

    >>> states, batch = torch.tensor([[1.0], [3.0], [-2.0]]), torch.tensor([0, 0, 1])
    >>> Readout(["mean", "max", "sum"])(states, batch, 2)
    tensor([[ 2.,  3.,  4.],
            [-2., -2., -2.]])
    """

    def __init__(self, statistics: Sequence[str] = ("mean", "max", "logsum")) -> None:
        super().__init__()
        statistics = (statistics,) if isinstance(statistics, str) else statistics
        unknown = [name for name in statistics if name not in READOUTS]
        if unknown or not statistics:
            raise ValueError(f"readout must be some of {', '.join(READOUTS)}; got {statistics!r}")
        self.statistics = tuple(statistics)

    def forward(
        self, x: Tensor, batch: Tensor, batch_size: int, multiplicity: Tensor | None = None
    ) -> Tensor:
        """Statistics of every graph; zeros for a graph without nodes."""
        graphs = (batch, batch_size, multiplicity)
        total, columns = graph_sum(x, *graphs), []
        count = graph_sum(torch.ones_like(x[:, :1]), *graphs).clamp_min(1)
        for name in self.statistics:
            if name == "max":
                zeros, index = x.new_zeros(total.shape), batch.unsqueeze(-1).expand(-1, x.shape[1])
                columns.append(zeros.scatter_reduce(0, index, x, "amax", include_self=False))
            elif name == "std":
                centered = x - (total / count).index_select(0, batch)
                variance = graph_sum(centered.square(), *graphs) / count
                columns.append((variance + 1e-12).sqrt() - 1e-6)  # a finite slope at zero
            elif name == "logsum":
                columns.append(torch.sign(total) * torch.log1p(total.abs()))
            else:
                columns.append(total / count if name == "mean" else total)
        return torch.cat(columns, dim=1)

    def extra_repr(self) -> str:
        return ", ".join(self.statistics)
