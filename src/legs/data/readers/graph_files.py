"""Folders of graph files: GraphML, GML, node-link JSON, edge lists of 2 or 3 columns.

Numeric node attributes become the block ``attributes``, one column each; a node without one of
them makes its file bad. The node attribute ``label`` becomes the block ``labels``, one-hot over all
graphs. Both are used by default, labels unless no two nodes of any graph share one: then they are
names. The edge attribute ``weight`` is the weight.

:func:`read_folder` has the options of :func:`legs.data.readers.folders.folder_reader`, and
``directed``: what to do about directed graphs, ``"error"`` (default), or ``"symmetrize"`` to take
every arc as an undirected edge, of the larger weight where there are two.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import BadRows, DataError
from legs.data.readers.base import (
    Graph,
    RawGraphs,
    attribute_names,
    both_directions,
    from_networkx,
    join_graphs,
    make_graph,
    merge_edges,
    node_blocks,
    node_labels,
    node_numbers,
)
from legs.data.readers.folders import folder_reader
from legs.data.readers.table_files import reading_errors
from legs.data.validate import LARGEST, overflows

MOST_BYTES = 64 * 2**20
MOST_ATTRIBUTES = 10_000  # of a node; a network's weights grow with them
_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2")}
# networkx writes the data of an edge as a dictionary.
_WEIGHT = re.compile(r"""['"]weight['"]\s*:\s*([^,}]+)""")


def _parse(files: Sequence[Path], bad: BadRows, directed: str) -> dict[int, Graph]:
    if directed not in ("error", "symmetrize"):
        raise DataError(f"directed is 'error' or 'symmetrize', not {directed!r}")
    graphs: dict[int, Graph] = {}
    for number, file in enumerate(files):
        try:
            graph = read_graph(file)
        except DataError as error:
            bad.add(file.name, str(error))
            continue
        try:
            graphs[number] = both_directions(graph, symmetrize=directed == "symmetrize")
        except DataError as error:  # a choice to make, not a broken file: never skipped
            raise DataError(f"{file.name}: {error}") from error
    names, labelled = _attributes(list(graphs.values()))
    return {i: graph for i, graph in graphs.items() if _complete(graph, names, labelled, bad)}


def _build(graphs: Sequence[Graph], ids: tuple[str, ...], path: Path, directed: str) -> RawGraphs:
    names, labelled = _attributes(graphs)
    of_nodes = dict.fromkeys(name for graph in graphs for node in graph.nodes for name in node)
    of_edges = sorted({name for graph in graphs for name in graph.edge_attributes})
    ignored = [f"node attribute {name}" for name in of_nodes if name not in {*names, "label"}]
    return RawGraphs(
        *join_graphs(graphs),
        name=path.name,
        ids=ids,
        blocks=node_blocks(graphs, names),
        default_features=("structure", *["labels"] * labelled, *["attributes"] * bool(names)),
        info={
            "source": str(path),
            "ignored": ignored + [f"edge attribute {name}" for name in of_edges],
        },
    )


def _attributes(graphs: Sequence[Graph]) -> tuple[list[str], bool]:
    """Names of attributes that are a number somewhere; and whether nodes have labels."""
    # Labels that all differ in every graph, as in GML, are names.
    labels = [[str(n["label"]) for n in graph.nodes if "label" in n] for graph in graphs]
    labelled = any(len(set(own)) < len(own) for own in labels)
    return attribute_names(graphs, aside=("label",)), labelled


def _complete(graph: Graph, names: Sequence[str], labelled: bool, bad: BadRows) -> bool:
    try:
        x = torch.from_numpy(node_numbers(graph, names))
        if labelled:
            node_labels(graph)
        data = GraphDataset.from_edges(x, *join_graphs([graph]), feature_names=tuple(names))
        for reason in overflows(data).values():
            raise DataError(reason)
    except DataError as error:
        bad.add(graph.name, str(error).removeprefix(f"{graph.name}: "))
        return False
    return True


def read_graph(path: Path) -> Graph:
    """Reads a graph file of a known suffix; errors are the reason alone, without the file's name.

    Multigraphs keep parallel edges. In an edge list, a line is an undirected edge and naming it
    again changes nothing; only different weights for the two directions make it directed.
    """
    with reading_errors("cannot be read", path, MOST_BYTES):
        graph = PARSERS[path.suffix.lower()](path.read_bytes())
    if not graph.nodes:
        raise DataError("a graph without nodes")
    for k, node in enumerate(graph.nodes):
        if len(node) > MOST_ATTRIBUTES:
            raise DataError(f"node {k} has more than {MOST_ATTRIBUTES:,} attributes; not read")
    weight = np.zeros(0) if graph.edge_weight is None else graph.edge_weight
    # NaN fails both comparisons; larger ones would be infinite in float32.
    for edge in np.flatnonzero(~((weight >= 0) & (weight <= LARGEST))).tolist():
        a, b = graph.edge_index[:, edge]
        raise DataError(
            f"edge {edge + 1} (nodes {a} and {b}) has weight {weight[edge]:g}; weights must be "
            "finite and not negative"
        )
    return graph._replace(name=path.name)


def _graphml(content: bytes) -> Graph:
    declared = _check_xml(content)
    import networkx as nx

    graph = nx.read_graphml(BytesIO(content))
    if len(graph) != declared:
        raise DataError("nodes are declared twice, or edges name nodes that are not declared")
    weight_default = graph.graph.get("edge_default", {}).get("weight")
    return from_networkx(graph, graph.graph.get("node_default"), weight_default)


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, *_: Any) -> None:
        raise DataError("an XML file with a DOCTYPE, which is not read; remove it")


def _check_xml(content: bytes) -> int:
    """Refuses document types, which entities need, and several graphs; counts the nodes."""
    root = ElementTree.fromstring(content, ElementTree.XMLParser(target=_Builder()))
    elements = Counter(element.tag.rpartition("}")[2] for element in root.iter())
    if elements["graph"] != 1:
        raise DataError(f"{elements['graph']} graphs in one file; each needs a file of its own")
    return elements["node"]


def _gml(content: bytes) -> Graph:
    import networkx as nx

    # label="id": "label" stays an attribute, which may repeat.
    return from_networkx(nx.parse_gml(content.decode("utf-8-sig"), label="id"))


def _node_link(content: bytes) -> Graph:
    data = json.loads(content.decode("utf-8-sig"))
    links = data.get("links", data.get("edges")) if isinstance(data, dict) else None
    if links is None or not isinstance(data.get("nodes"), list):
        raise DataError("not node-link JSON: an object with the lists 'nodes' and 'links'")
    number: dict[str, int] = {}
    for i, node in enumerate(data["nodes"]):
        # Names may be any JSON; dumped, 1 and "1" stay apart and lists become hashable.
        if number.setdefault(json.dumps(node.get("id", i)), i) != i:
            raise DataError(f"two nodes have the id {node.get('id', i)!r}")
    edges = []
    for link in links:
        ends = [number.get(json.dumps(link[end])) for end in ("source", "target")]
        if ends[0] is None or ends[1] is None:
            raise DataError(f"a link names a node that is not there: {str(link)[:80]}")
        edges.append((ends[0], ends[1], link.get("weight")))
    nodes = [dict(islice(_flat(node), MOST_ATTRIBUTES + 1)) for node in data["nodes"]]
    names = {name for link in links for name in link}
    graph = make_graph(nodes, edges, names, directed=bool(data.get("directed", False)))
    return graph if data.get("multigraph", False) else merge_edges(graph)


def _flat(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Attributes of a JSON node; a list of numbers becomes one attribute per number."""
    for key, value in node.items():
        if key == "id":
            continue
        if isinstance(value, list) and all(isinstance(v, Real) for v in value):
            yield from ((f"{key}{i}", v) for i, v in enumerate(value))
        else:
            yield key, value


def _edge_list(content: bytes) -> Graph:
    number: dict[str, int] = {}
    edges: list[tuple[int, int, Any]] = []
    for row, line in enumerate(content.decode("utf-8-sig").splitlines(), start=1):
        text, brace, data = line.partition("{")
        cells = [c.strip("\"'") for c in text.replace(",", " ").replace(";", " ").split()]
        if line.strip()[:1] in ("", "#", "%"):
            continue
        if not edges and tuple(cell.lower() for cell in cells[:2]) in _HEADERS:
            continue
        if len(cells) not in ((2,) if brace else (2, 3)):
            raise DataError(f"line {row} has {len(cells)} columns, not 2 or 3: {line[:60]!r}")
        a, b = (number.setdefault(cell, len(number)) for cell in cells[:2])
        match = _WEIGHT.search(data)
        edges.append((a, b, cells[2] if len(cells) == 3 else match and match[1]))
    return merge_edges(make_graph([{}] * len(number), edges))


PARSERS: dict[str, Callable[[bytes], Graph]] = {
    ".graphml": _graphml,
    ".gml": _gml,
    ".json": _node_link,
    ".edgelist": _edge_list,
    ".edges": _edge_list,
    ".txt": _edge_list,
    ".csv": _edge_list,
}

SUFFIXES = tuple(PARSERS)
READER = folder_reader(SUFFIXES, _parse, _build, {"directed": "error"})
read_folder = READER.read
