"""What readers have in common: graphs as read, rows of a source, and the readers themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from torch import Tensor

from legs.data.dataset import Task
from legs.data.errors import BadRows

if TYPE_CHECKING:
    import pandas as pd

    from legs.data.readers.tables import TableRows


class Features(NamedTuple):
    """A block of node features."""

    x: Tensor  # [nodes, columns], float32
    names: tuple[str, ...]


Blocks: TypeAlias = dict[str, Callable[[], Features]]


@dataclass(frozen=True, eq=False)
class RawGraphs:
    """Graphs as read: structure, targets, and the node features their source can offer.

    Args:
        ptr: node offsets of the graphs, ``[graphs + 1]``, int64.
        edge_index: edges of all graphs, numbered through, ``[2, edges]``, both directions.
        edge_weight: ``[edges]`` or ``None``.
        y: classes ``[graphs]`` (int64) or targets ``[graphs, targets]`` (float32, NaN: missing).
        blocks: feature blocks by name (``"labels"``, ``"attributes"``, ``"atoms"``, ``"qm9"``,
            ``"chem"``), each a function, so that only the chosen ones are computed. Blocks that
            follow from the structure alone (``"structure"``, ``"degree"``) are not listed here.
        default_features: blocks to use where the user names none.
        info: source, licence note, groups for splitting, bad rows, …
    """

    ptr: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    task: Task | None = None
    name: str = ""
    class_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    smiles: tuple[str, ...] = ()
    blocks: Mapping[str, Callable[[], Features]] = field(default_factory=dict)
    default_features: tuple[str, ...] = ("structure",)
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a source in its order, including those that cannot be used."""

    ids: list[str]  # per row
    smiles: list[str]  # per row, as written in the source; empty for graphs that are no molecules
    where: list[str]  # what messages call each row: a line of the file, a file of the folder
    errors: list[str]  # why a row cannot be used, or ""
    index: list[int]  # the row of each graph
    # Makes the graphs at some positions of the index.
    build: Callable[[Sequence[int]], RawGraphs] | None = None
    targets: pd.DataFrame | None = None  # target columns, a row per graph; None without

    def graphs(self, task: Task | None, bad: BadRows) -> RawGraphs:
        """The graphs with their targets, for training; arguments as in ``encode_targets``."""
        assert self.build is not None
        if self.targets is None or not len(self.targets.columns):
            return self.build(range(len(self.index)))
        from legs.data.readers.targets import encode_targets

        # Only rows with a graph: no class is left without one.
        names = [str(name) for name in self.targets.columns]
        where = [self.where[row] for row in self.index]
        targets = encode_targets(self.targets, names, task, bad=bad, where=where)
        return replace(self.build(targets.kept.nonzero()[0].tolist()), **targets.fields())


@dataclass(frozen=True)
class Reader:
    """How one kind of source is read."""

    read: Callable[..., RawGraphs]  # everything, for training
    options: frozenset[str]  # names of the keyword arguments of ``read``
    # Rows, ``chunk`` at a time, for prediction and embedding; ``Rows`` where all rows have to be
    # read together, ``None`` for sources that are only read whole.
    iter_batches: Callable[..., Iterator[TableRows | Rows]] | None = None
    packages: tuple[str, ...] = ()  # whose versions the result depends on
