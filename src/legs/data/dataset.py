"""A data set of graphs as one block-diagonal sparse matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

Task = Literal["classification", "regression", "multilabel"]
Index: TypeAlias = slice | Sequence[int] | Tensor | np.ndarray[Any, Any]


class GraphBatch(NamedTuple):
    """Some graphs of a data set as one; the first five are what a network's forward takes."""

    x: Tensor  # [nodes, channels]
    edge_index: Tensor  # [2, edges], sorted by target
    edge_weight: Tensor | None  # [edges]
    batch: Tensor  # [nodes], the graph of each node
    batch_size: int
    y: Tensor | None  # [graphs] classes or [graphs, targets] values
    edge_attr: Tensor | None = None  # [edges, edge features], as x
    graph_features: Tensor | None = None  # [graphs, graph-level features], as x; NaN: missing

    def to(self, device: torch.device | str) -> GraphBatch:
        """The same batch on another device."""
        return GraphBatch._make(t.to(device) if isinstance(t, Tensor) else t for t in self)


@dataclass(frozen=True, eq=False, repr=False)
class GraphDataset:
    """Graphs with node features and targets, stored once, batched without collating.

    All graphs lie side by side in one block-diagonal CSR matrix. Row ``i`` lists the neighbours
    that node ``i`` receives from; both directions of every edge are stored.

    Args:
        x: node features of all graphs, ``[nodes, channels]``, float32.
        ptr: node offsets of the graphs, ``[graphs + 1]``, int64.
        rowptr: CSR offsets of the nodes, ``[nodes + 1]``, int64.
        col: neighbours as node numbers of the whole set, ``[edges]``, int32.
        edge_weight: ``[edges]`` float32, or ``None`` for ones.
        y: classes ``[graphs]`` (int64) or targets ``[graphs, targets]`` (float32, NaN: missing).
        task: ``"classification"``, ``"regression"``, ``"multilabel"`` (targets are 0 or 1), or
            ``None`` without targets.
        name: of the set.
        feature_names: of the columns of ``x``.
        class_names: of the classes, in order of their numbers.
        target_names: of the columns of ``y``.
        ids: per graph: a row number, a name from the user's file, …
        smiles: per graph, for molecules.
        groups: per graph, where graphs belong together and splits may have to respect it.
        info: anything else: source, licence note, …
        edge_attr: edge features ``[edges, edge features]``, float32 or uint8: bonds of molecules.
        graph_features: graph-level features ``[graphs, columns]``, float32, NaN: missing, such as
            descriptors of molecules.
        graph_feature_names: of the columns of ``graph_features``.

    >>> path = Data(x=torch.rand(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    >>> data = GraphDataset.from_pyg([path, path])
    >>> data
    GraphDataset('', graphs=2, nodes=4, in_channels=1)
    >>> len(data), data[1].num_nodes, data.batch([1, 0, 1]).batch
    (2, 2, tensor([0, 0, 1, 1, 2, 2]))
    """

    x: Tensor
    ptr: Tensor
    rowptr: Tensor
    col: Tensor
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    task: Task | None = None
    name: str = ""
    feature_names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    smiles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    edge_attr: Tensor | None = None
    graph_features: Tensor | None = None
    graph_feature_names: tuple[str, ...] = ()

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return self.ptr.numel() - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs."""
        return self.x.shape[0]

    @property
    def in_channels(self) -> int:
        """Number of node features."""
        return self.x.shape[1]

    @property
    def edge_dim(self) -> int | None:
        """Number of edge features; ``None`` without any."""
        return None if self.edge_attr is None else self.edge_attr.shape[1]

    @property
    def graph_dim(self) -> int | None:
        """Number of graph-level features; ``None`` without any."""
        return None if self.graph_features is None else self.graph_features.shape[1]

    @property
    def out_channels(self) -> int:
        """Number of classes or targets: what a model has to put out."""
        if self.y is None:
            raise ValueError(f"{self.name or 'this data set'} has no targets")
        return len(self.class_names) if self.task == "classification" else self.y.shape[1]

    @property
    def sizes(self) -> Tensor:
        """Number of nodes of each graph, ``[graphs]``."""
        return self.ptr.diff()

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        task = f", task={self.task!r}" if self.task else ""
        task = task if self.graph_dim is None else f", graph_dim={self.graph_dim}{task}"
        return (
            f"GraphDataset({self.name!r}, graphs={len(self)}, nodes={self.num_nodes}, "
            f"in_channels={self.in_channels}{task})"
        )

    def __iter__(self) -> Iterator[Data]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: Index) -> GraphDataset: ...
    def __getitem__(self, index: Any) -> Data | GraphDataset:
        """One graph as PyG ``Data``, or several as a smaller data set."""
        if isinstance(index, (int, np.integer)):
            if not -len(self) <= index < len(self):
                raise IndexError(f"graph {index} of {len(self)}")
            graph = self.batch([int(index) % len(self)])
            names = ("edge_weight", "edge_attr", "y", "graph_features")
            optional = {name: getattr(graph, name) for name in names}
            fields = {name: value for name, value in optional.items() if value is not None}
            return Data(graph.x, graph.edge_index, **fields)
        return self.subset(index)

    def subset(self, index: Index) -> GraphDataset:
        """The graphs selected by a slice, numbers or a mask, in that order."""
        # Nothing here may look at the whole set: a batch costs what the batch is.
        graphs = self._numbers(index)
        rows = graphs.tolist()
        starts = self.ptr[graphs]
        sizes = self.ptr[graphs + 1] - starts
        nodes, ptr = _ranges(starts, sizes)
        degree = self.rowptr[nodes + 1] - self.rowptr[nodes]
        edges, rowptr = _ranges(self.rowptr[nodes], degree)
        shift = torch.repeat_interleave(torch.repeat_interleave(ptr[:-1] - starts, sizes), degree)
        return replace(
            self,
            x=self.x[nodes],
            ptr=ptr,
            rowptr=rowptr,
            col=(self.col[edges] + shift).to(self.col.dtype),
            edge_weight=None if self.edge_weight is None else self.edge_weight[edges],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            graph_features=None if self.graph_features is None else self.graph_features[graphs],
            y=None if self.y is None else self.y[graphs],
            ids=tuple(self.ids[i] for i in rows) if self.ids else (),
            smiles=tuple(self.smiles[i] for i in rows) if self.smiles else (),
            groups=tuple(self.groups[i] for i in rows) if self.groups else (),
        )

    def batch(self, index: Index) -> GraphBatch:
        """The selected graphs as one block-diagonal graph: gathered, not collated."""
        return replace(self, ids=(), smiles=(), groups=()).subset(index).whole()

    def whole(self) -> GraphBatch:
        """All graphs as one batch."""
        nodes = torch.arange(self.num_nodes, device=self.ptr.device)
        graphs = torch.arange(len(self), device=self.ptr.device)
        target = torch.repeat_interleave(nodes, self.rowptr.diff())
        return GraphBatch(
            x=self.x,
            edge_index=torch.stack([self.col.long(), target]),
            edge_weight=self.edge_weight,
            batch=torch.repeat_interleave(graphs, self.sizes),
            batch_size=len(self),
            y=self.y,
            edge_attr=None if self.edge_attr is None else self.edge_attr.to(self.x.dtype),
            graph_features=own if (own := self.graph_features) is None else own.to(self.x.dtype),
        )

    def to(self, device: torch.device | str) -> GraphDataset:
        """The same data set on another device."""
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        moved: dict[str, Any] = {name: value.to(device) for name, value in tensors.items()}
        return replace(self, **moved)

    def with_x(self, x: Tensor, feature_names: tuple[str, ...] = ()) -> GraphDataset:
        """The same graphs with other node features, ``[nodes, channels]``."""
        return replace(self, x=x, feature_names=feature_names)

    @classmethod
    def from_pyg(cls, graphs: Sequence[Data], **fields: Any) -> GraphDataset:
        """Gathers PyG graphs: ``x``, ``edge_index``, perhaps ``edge_weight``, ``edge_attr``, ``y``.

        Graph-level features are ``graph_features``, ``[1, columns]``.

        Args:
            graphs: with both directions of every edge.
            fields: further fields of the data set, such as ``task`` and ``class_names``.
        """
        ptr = offsets(torch.tensor([int(g.num_nodes or 0) for g in graphs]))
        edges = torch.cat([g.edge_index + o for g, o in zip(graphs, ptr[:-1], strict=True)], dim=1)
        weight = None
        if any(g.get("edge_weight") is not None for g in graphs):
            pairs = [(g.get("edge_weight"), g.num_edges) for g in graphs]
            weight = torch.cat([torch.ones(n) if w is None else w for w, n in pairs]).float()
        if "y" not in fields and all(g.get("y") is not None for g in graphs) and len(graphs):
            fields["y"] = torch.cat([torch.as_tensor(g.y).reshape(1, -1) for g in graphs])
            if fields.get("task") == "classification":
                fields["y"] = fields["y"].flatten().long()
        if "edge_attr" not in fields and all(g.get("edge_attr") is not None for g in graphs):
            fields["edge_attr"] = torch.cat([as_columns(g.edge_attr) for g in graphs])
        rows = [g.get("graph_features") for g in graphs]
        if "graph_features" not in fields and rows and all(row is not None for row in rows):
            fields["graph_features"] = torch.cat([row.reshape(1, -1) for row in rows]).float()
        x = torch.cat([g.x.float() for g in graphs])
        return cls.from_edges(x, ptr, edges, weight, **fields)

    @classmethod
    def from_edges(
        cls,
        x: Tensor,
        ptr: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        **fields: Any,
    ) -> GraphDataset:
        """From the edges of all graphs, numbered through: ``edge_index`` ``[2, edges]``."""
        source, target = edge_index
        num_nodes = int(ptr[-1])
        order = torch.argsort(target * max(num_nodes, 1) + source)
        rowptr = offsets(torch.bincount(target, minlength=num_nodes))
        weight = None if edge_weight is None else edge_weight[order]
        if edge_attr is not None:
            fields["edge_attr"] = as_columns(edge_attr)[order]
        return cls(x, ptr, rowptr, source[order].int(), weight, **fields)

    def to_pyg(self) -> list[Data]:
        """A list of PyG graphs."""
        return list(self)

    def _numbers(self, index: Index) -> Tensor:
        everything = torch.arange(len(self), device=self.ptr.device)
        if isinstance(index, slice):
            return everything[index]
        if not len(index):
            return everything[:0]
        numbers = index if isinstance(index, Tensor) else torch.as_tensor(np.asarray(index))
        return everything[numbers.to(everything.device)]


def as_columns(attr: Tensor) -> Tensor:
    """Edge features ``[edges, ...]`` as a matrix: uint8 as it is, all else float32."""
    table = attr.unsqueeze(1) if attr.dim() == 1 else attr.flatten(1)
    return table if table.dtype == torch.uint8 else table.float()


def offsets(lengths: Tensor) -> Tensor:
    """Where parts of these lengths begin, and where the last one ends."""
    out = torch.zeros(len(lengths) + 1, dtype=torch.long, device=lengths.device)
    torch.cumsum(lengths, 0, out=out[1:])
    return out


def _ranges(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers ``starts[i], …, starts[i] + lengths[i] - 1`` one after another; their offsets."""
    ptr = offsets(lengths)
    shift = torch.repeat_interleave(starts - ptr[:-1], lengths)
    return torch.arange(int(ptr[-1]), device=lengths.device) + shift, ptr
