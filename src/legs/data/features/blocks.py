"""Node features by name: which blocks, in which order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, DataWarning, listed
from legs.data.features.structure import clustering_coefficient, degree, eccentricity
from legs.data.readers.base import SAME_FIELDS, Features, RawGraphs
from legs.data.readers.targets import find_column
from legs.data.validate import check_values


def assemble(raw: RawGraphs, features: str | Sequence[str] | None = None) -> GraphDataset:
    """Selects node features of graphs that were read, and makes a data set of them.

    The graphs stay as they were read: self-loops and parallel edges are kept as weights of the
    walk; only ``"structure"`` and degrees look at the simple graph.

    Args:
        raw: the graphs.
        features: blocks in the order of the columns, ``"structure+labels"`` or a list of names.
            Always there: ``"structure"`` (eccentricity within the node's connected component,
            clustering coefficient), ``"degree"``, ``"degree-onehot"`` (logarithm of the degree, and
            one-hot up to 8 and more), ``"constant"`` (one). Depending on the source
            also ``"labels"``, ``"attributes"``, ``"atoms"``, ``"qm9"``, ``"chem"``. Default: what
            the source suggests.

    Raises:
        DataError: for a name that is unknown or that this source does not offer.

    >>> triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    >>> data = assemble(RawGraphs(torch.tensor([0, 4]), triangle), "structure+degree")
    >>> data.feature_names
    ('eccentricity', 'clustering', 'degree')
    >>> data.x
    tensor([[1., 1., 2.],
            [1., 1., 2.],
            [1., 1., 2.],
            [0., 0., 0.]])
    """
    names = block_names(raw, features)
    nodes = int(raw.ptr[-1])
    data = GraphDataset.from_edges(
        torch.empty(nodes, 0),
        raw.ptr,
        raw.edge_index,
        None if raw.edge_weight is None else raw.edge_weight.float(),
        raw.edge_attr,
        **{field: getattr(raw, field) for field in SAME_FIELDS},
        groups=tuple(str(group) for group in raw.info.get("groups", ())),
        info={
            **{k: v for k, v in raw.info.items() if k != "groups"},
            "features": names,
            # Only what the source says of nodes and edges: other blocks are views of the same.
            "unused": [
                *(n for n in ("labels", "attributes") if n in raw.blocks and n not in names),
                *raw.info.get("ignored", ()),
            ],
        },
    )
    blocks = {**raw.blocks, **structure_blocks(data)}
    chosen = {name: blocks[name]() for name in names}
    for name, (x, columns) in chosen.items():
        if x.shape != (nodes, len(columns)):
            raise DataError(
                f"the node features {name!r} have shape {list(x.shape)}, not "
                f"{[nodes, len(columns)]}: a row per node, a column per name"
            )
    data = data.with_x(
        torch.cat([x.float() for x, _ in chosen.values()], dim=1),
        tuple(column for _, columns in chosen.values() for column in columns),
    )
    check_values(data)
    return data


def describe_features(data: GraphDataset) -> str:
    """The node features of a data set in a line, and what its source holds besides."""
    blocks = "+".join(data.info.get("features", ())) or "node features"
    unused = listed(data.info.get("unused", ()))
    return f"{blocks}: {data.in_channels} per node" + (f"; not used: {unused}" if unused else "")


def align(data: GraphDataset, wanted: Sequence[str]) -> GraphDataset:
    """The same graphs with the node features ``wanted``, in that order; any if it is empty.

    A one-hot column (``label=C``) that no graph has is a column of zeros. One that is not wanted is
    dropped with a :class:`~legs.data.errors.DataWarning` if others of its block are wanted: its
    nodes have no label then. Graphs that differ otherwise are returned as they are.
    """
    names = data.feature_names
    blocks = {name.partition("=")[0] for name in wanted if "=" in name}
    unseen = [name for name in names if name not in wanted]
    changed = [name for name in wanted if name not in names] + unseen
    fits = all("=" in name and name.partition("=")[0] in blocks for name in changed)
    if names == tuple(wanted) or not fits or len(set(wanted)) < len(wanted):
        return data
    if unseen:
        counts = (data.x[:, [name in unseen for name in names]] != 0).sum(0).tolist()
        columns = [f"{n} ({c:,} node{'s' * (c != 1)})" for n, c in zip(unseen, counts, strict=True)]
        warnings.warn(
            f"{data.name}: {listed(columns)} did not occur in training; these nodes have no label "
            "for the model",
            DataWarning,
            stacklevel=2,
        )
    x = torch.zeros(data.num_nodes, len(wanted))
    shared = [name for name in wanted if name in names]
    x[:, list(map(wanted.index, shared))] = data.x[:, list(map(names.index, shared))]
    return data.with_x(x, tuple(wanted))


STRUCTURE_BLOCKS = ("structure", "degree", "degree-onehot", "constant")
MAX_DEGREE = 8  # of one-hot degrees: the last column stands for larger ones, too


def block_names(raw: RawGraphs, features: str | Sequence[str] | None = None) -> tuple[str, ...]:
    """The names of the chosen blocks, checked against what the graphs offer."""
    if isinstance(features, str):
        features = [name.strip() for name in features.split("+")]
    names = raw.default_features if features is None else tuple(features)
    offered = sorted({*raw.blocks, *STRUCTURE_BLOCKS})
    for name in names:
        find_column(offered, str(name), "feature block")
    if not names:
        raise DataError(f"no node features are chosen; there are {', '.join(offered)}")
    if len(set(names)) < len(names):
        raise DataError(f"node features named twice: {'+'.join(names)}")
    return names


def structure_blocks(data: GraphDataset) -> Mapping[str, Callable[[], Features]]:
    """The blocks that follow from the graphs alone, each computed when it is called."""
    csr = (data.ptr.numpy(), data.rowptr.numpy(), data.col.numpy())

    def structure() -> Features:
        columns = np.stack([eccentricity(*csr), clustering_coefficient(*csr)], axis=1)
        return Features(torch.from_numpy(columns).float(), ("eccentricity", "clustering"))

    def degree_onehot() -> Features:
        degrees = torch.from_numpy(degree(*csr)).long()
        onehot = torch.nn.functional.one_hot(degrees.clamp_max(MAX_DEGREE), MAX_DEGREE + 1)
        names = (*(f"degree={k}" for k in range(MAX_DEGREE)), f"degree>={MAX_DEGREE}")
        columns = torch.cat([degrees.unsqueeze(1).float().log1p(), onehot.float()], dim=1)
        return Features(columns, ("log_degree", *names))

    return {
        "structure": structure,
        "degree": lambda: Features(torch.from_numpy(degree(*csr)[:, None]).float(), ("degree",)),
        "degree-onehot": degree_onehot,
        "constant": lambda: Features(torch.ones(data.num_nodes, 1), ("constant",)),
    }
