"""Node features by name: which blocks, in which order."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, listed
from legs.data.features.structure import clustering_coefficient, degree, eccentricity
from legs.data.readers.base import Features, RawGraphs
from legs.data.validate import check_values


def assemble(raw: RawGraphs, features: str | Sequence[str] | None = None) -> GraphDataset:
    """Chooses node features for graphs that were read, and makes them a data set.

    The graphs stay as they were read: self-loops and parallel edges are kept as weights of the
    walk; only ``"structure"`` and ``"degree"`` look at the simple graph.

    Args:
        raw: the graphs.
        features: blocks in the order of the columns, ``"structure+labels"`` or a list of names.
            Always there: ``"structure"`` (eccentricity within the node's connected component,
            clustering coefficient), ``"degree"``, ``"constant"`` (one). Depending on the source
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
    weight = None if raw.edge_weight is None else raw.edge_weight.float()
    data = GraphDataset.from_edges(
        torch.empty(nodes, 0),
        raw.ptr,
        raw.edge_index,
        weight,
        y=raw.y,
        task=raw.task,
        name=raw.name,
        class_names=raw.class_names,
        target_names=raw.target_names,
        ids=raw.ids,
        smiles=raw.smiles,
        groups=tuple(str(group) for group in raw.info.get("groups", ())),
        info={
            **{k: v for k, v in raw.info.items() if k != "groups"},
            "features": names,
            "unused": _unused(raw, names),
        },
    )
    blocks = {**raw.blocks, **structure_blocks(data)}
    found = [blocks[name]() for name in names]
    for name, block in zip(names, found, strict=True):
        if block.x.shape != (nodes, len(block.names)):
            raise DataError(
                f"the node features {name!r} have shape {list(block.x.shape)}, not "
                f"{[nodes, len(block.names)]}: a row per node, a column per name"
            )
    data = replace(
        data,
        x=torch.cat([block.x.float() for block in found], dim=1),
        feature_names=tuple(name for block in found for name in block.names),
    )
    check_values(data)
    return data


def describe_features(data: GraphDataset) -> str:
    """The node features of a data set in a line, and what its source holds besides.

    >>> edges = torch.tensor([[0, 1], [1, 0]])
    >>> raw = RawGraphs(torch.tensor([0, 2]), edges, info={"ignored": ["edge labels"]})
    >>> describe_features(assemble(raw))
    'structure: 2 per node; not used: edge labels'
    """
    blocks = "+".join(data.info.get("features", ())) or "node features"
    unused = listed(data.info.get("unused", ()))
    return f"{blocks}: {data.in_channels} per node" + (f"; not used: {unused}" if unused else "")


def _unused(raw: RawGraphs, names: Sequence[str]) -> list[str]:
    # Only what the source says of nodes and edges: other blocks are other views of the same.
    blocks = [name for name in ("labels", "attributes") if name in {*raw.blocks} - {*names}]
    return [*blocks, *raw.info.get("ignored", ())]


STRUCTURE_BLOCKS = ("structure", "degree", "constant")


def block_names(raw: RawGraphs, features: str | Sequence[str] | None = None) -> tuple[str, ...]:
    """The names of the chosen blocks, checked against what the graphs offer.

    >>> raw = RawGraphs(torch.tensor([0, 1]), torch.empty(2, 0, dtype=torch.long))
    >>> block_names(raw, "degree + structure")
    ('degree', 'structure')
    >>> block_names(raw, "structures")
    Traceback (most recent call last):
    ...
    legs.data.errors.DataError: no node features 'structures' here; there are constant, degree, \
structure. Did you mean 'structure'?
    """
    if features is None:
        names = raw.default_features
    elif isinstance(features, str):
        names = tuple(name.strip() for name in features.split("+"))
    else:
        names = tuple(features)
    offered = sorted({*raw.blocks, *STRUCTURE_BLOCKS})
    for name in names:
        if name not in offered:
            near = difflib.get_close_matches(str(name), offered, n=1)
            raise DataError(
                f"no node features {name!r} {f'for {raw.name}' if raw.name else 'here'}; "
                f"there are {', '.join(offered)}." + (f" Did you mean {near[0]!r}?" if near else "")
            )
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

    def degrees() -> Features:
        return Features(torch.from_numpy(degree(*csr)).float().unsqueeze(1), ("degree",))

    def constant() -> Features:
        return Features(torch.ones(int(csr[0][-1]), 1), ("constant",))

    return {"structure": structure, "degree": degrees, "constant": constant}
