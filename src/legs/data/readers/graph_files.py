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
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from legs.data.errors import BadRows, DataError
from legs.data.readers.base import Features, RawGraphs
from legs.data.readers.folders import folder_reader
from legs.data.readers.node_data import (
    Graph,
    attribute_names,
    join_graphs,
    node_labels,
    node_numbers,
    number_block,
    one_hot_block,
)
from legs.data.readers.table_files import reading_errors
from legs.data.readers.text import parse_number
from legs.data.validate import LARGEST, Array, check_degrees, check_magnitudes

MOST_BYTES = 64 * 2**20
MOST_ATTRIBUTES = 10_000  # of a node; a network's weights grow with them
_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2")}
# networkx writes the data of an edge as a dictionary.
_WEIGHT = re.compile(r"""['"]weight['"]\s*:\s*([^,}]+)""")
_NOT_ATTRIBUTES = frozenset({"source", "target", "weight", "id", "key"})  # of edges
_NUMERIC = ("int", "long", "float", "double")


def _parse(files: Sequence[Path], bad: BadRows, directed: str) -> dict[int, FileGraph]:
    if directed not in ("error", "symmetrize"):
        raise DataError(f"directed is 'error' or 'symmetrize', not {directed!r}")
    graphs = {}
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


def _build(
    graphs: Sequence[FileGraph], ids: tuple[str, ...], path: Path, directed: str
) -> RawGraphs:
    nodes = [graph.nodes for graph in graphs]
    names, labelled = _attributes(graphs)
    blocks: dict[str, Callable[[], Features]] = {}
    if names:
        blocks["attributes"] = lambda: number_block(nodes, names, lambda i: graphs[i].file)
    if any("label" in node for graph in nodes for node in graph):
        blocks["labels"] = lambda: one_hot_block(nodes, "label", lambda i: graphs[i].file)
    of_nodes = dict.fromkeys(name for graph in nodes for node in graph for name in node)
    of_edges = sorted({name for graph in graphs for name in graph.edge_attributes})
    used = {*names, "label"}
    ignored = [f"node attribute {name}" for name in of_nodes if name not in used]
    ignored += [f"edge attribute {name}" for name in of_edges]
    return RawGraphs(
        *join_graphs([graph.edges() for graph in graphs]),
        name=path.name,
        ids=ids,
        blocks=blocks,
        default_features=("structure", *["labels"] * labelled, *["attributes"] * bool(names)),
        info={"source": str(path), "ignored": ignored},
    )


def _attributes(graphs: Sequence[FileGraph]) -> tuple[list[str], bool]:
    """Names of attributes that are a number somewhere; and whether nodes have labels.

    Labels that all differ in every graph, as in GML, are names.
    """
    labels = [[str(n["label"]) for n in graph.nodes if "label" in n] for graph in graphs]
    labelled = any(len(set(own)) < len(own) for own in labels)
    return attribute_names([graph.nodes for graph in graphs], aside=("label",)), labelled


def _complete(graph: FileGraph, names: Sequence[str], labelled: bool, bad: BadRows) -> bool:
    try:
        for name, column in zip(names, node_numbers(graph.nodes, names).T, strict=True):
            check_magnitudes(column, name)
        if labelled:
            node_labels(graph.nodes)
        if graph.weight is not None:
            check_degrees(graph.source, graph.weight)
    except DataError as error:
        bad.add(graph.file, str(error))
        return False
    return True


class FileGraph(NamedTuple):
    """A graph as its file describes it, with every edge once, or then in both directions."""

    nodes: list[dict[str, Any]]  # attributes of each node
    source: Array  # [edges] int64
    target: Array  # [edges] int64
    weight: Array | None  # [edges] float64
    directed: bool
    edge_attributes: frozenset[str] = frozenset()  # names, those of weights aside
    file: str = ""

    def edges(self) -> Graph:
        """Its nodes, counted, and edges."""
        return Graph(len(self.nodes), np.stack([self.source, self.target]), self.weight)


def file_graph(
    nodes: list[dict[str, Any]], triples: Sequence[tuple[int, int, Any]], *, directed: bool
) -> FileGraph:
    """A graph from edges ``(node, node, weight)``; weights of ``None`` are 1."""
    ends = np.array([triple[:2] for triple in triples], dtype=np.int64).reshape(-1, 2)
    weight = None
    if any(triple[2] is not None for triple in triples):
        weight = np.array([_weight(w, edge) for edge, (_, _, w) in enumerate(triples, start=1)])
    return FileGraph(nodes, ends[:, 0], ends[:, 1], weight, directed)


def _weight(value: Any, edge: int) -> float:
    if value is None:
        return 1.0
    try:
        return parse_number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        raise DataError(f"edge {edge} has weight {str(value)[:40]}, not a number") from None


def merge(graph: FileGraph) -> FileGraph:
    """One edge for every edge named twice; if the directions differ in weight, a directed graph."""
    once, differ = _distinct(graph, graph.source, graph.target)
    if differ.size and not np.isnan(graph.weight).any():  # type: ignore[arg-type]
        raise DataError(f"edge {int(differ[0]) + 1} is listed before with another weight")
    if graph.directed:
        return once
    low, high = np.minimum(once.source, once.target), np.maximum(once.source, once.target)
    merged, differ = _distinct(once, low, high)
    return once._replace(directed=True) if differ.size else merged


def _distinct(graph: FileGraph, source: Array, target: Array) -> tuple[FileGraph, Array]:
    """The first edge of each pair of nodes, and edges that differ from it in weight."""
    pairs = source * len(graph.nodes) + target
    _, first, place = np.unique(pairs, return_index=True, return_inverse=True)
    weight, differ = graph.weight, np.empty(0, dtype=np.int64)
    if weight is not None:
        differ = np.flatnonzero(weight[first][place] != weight)
        weight = weight[first]
    once = graph._replace(source=graph.source[first], target=graph.target[first], weight=weight)
    return once, differ


def both_directions(graph: FileGraph, *, symmetrize: bool) -> FileGraph:
    """The graph with every edge in both directions.

    A directed graph whose arcs all have an equal counterpart is an undirected one. Any other is
    refused, or with ``symmetrize`` gets an edge wherever there is an arc, of the larger weight.
    """
    size, source, target, weight = len(graph.nodes), graph.source, graph.target, graph.weight
    if not graph.directed:
        once = source != target  # a loop is its own reverse
        ends = np.concatenate([source, target[once]]), np.concatenate([target, source[once]])
        weight = None if weight is None else np.concatenate([weight, weight[once]])
        return graph._replace(source=ends[0], target=ends[1], weight=weight)
    ones = np.ones(len(source)) if weight is None else weight
    arcs, place = np.unique(source * size + target, return_inverse=True)
    there = np.bincount(place, ones, minlength=len(arcs))  # parallel arcs add up
    reverse = arcs % size * size + arcs // size
    position = np.minimum(np.searchsorted(arcs, reverse), max(len(arcs) - 1, 0))
    back = np.where(arcs[position] == reverse, there[position], 0.0) if len(arcs) else there
    if not symmetrize and not np.allclose(there, back, rtol=1e-5, atol=0):
        raise DataError(
            "a directed graph (directed='symmetrize' takes every arc as an undirected edge, of the "
            "larger weight where there are two)"
        )
    pairs, first = np.unique(np.concatenate([arcs, reverse]), return_index=True)
    both = np.tile(np.maximum(there, back), 2)[first]
    return graph._replace(source=pairs // size, target=pairs % size, weight=both)


def read_graph(path: Path) -> FileGraph:
    """Reads a graph file of a known suffix (:data:`PARSERS`).

    Nodes come in the order of the file. Edge attribute ``weight`` is the weight, 1 where missing.
    Multigraphs keep parallel edges. In an edge list, a line is an undirected edge and naming it
    again changes nothing; only different weights for the two directions make it directed. Errors
    are the reason alone, without the file's name.
    """
    with reading_errors("cannot be read", path, MOST_BYTES):
        graph = PARSERS[path.suffix.lower()](path.read_bytes())
    if not graph.nodes:
        raise DataError("a graph without nodes")
    for k, node in enumerate(graph.nodes):
        if len(node) > MOST_ATTRIBUTES:
            raise DataError(f"node {k} has more than {MOST_ATTRIBUTES:,} attributes; not read")
    if graph.weight is not None:
        # NaN fails both comparisons; larger ones would be infinite in float32.
        wrong = np.flatnonzero(~((graph.weight >= 0) & (graph.weight <= LARGEST)))
        if wrong.size:
            edge = int(wrong[0])
            raise DataError(
                f"edge {edge + 1} (nodes {graph.source[edge]} and {graph.target[edge]}) has weight "
                f"{graph.weight[edge]:g}; weights must be finite and not negative"
            )
    return graph._replace(file=path.name)


def _graphml(content: bytes) -> FileGraph:
    declared = _check_xml(content)
    import networkx as nx

    graph = nx.read_graphml(BytesIO(content))
    if len(graph) != declared:
        raise DataError("nodes are declared twice, or edges name nodes that are not declared")
    node_default = graph.graph.get("node_default", {})
    default = graph.graph.get("edge_default", {}).get("weight")
    return _with_names(from_networkx(graph, node_default, default), graph)


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, *_: Any) -> None:
        raise DataError("an XML file with a DOCTYPE, which is not read; remove it")


def _check_xml(content: bytes) -> int:
    """Refuses document types, which entities need, and several graphs; counts the nodes.

    Values of numeric attributes must be numbers: networkx reads them as Python does.
    """
    root = ElementTree.fromstring(content, ElementTree.XMLParser(target=_Builder()))
    elements: dict[str, list[Any]] = {"graph": [], "node": [], "key": [], "data": []}
    for element in root.iter():
        elements.setdefault(element.tag.rpartition("}")[2], []).append(element)
    if (count := len(elements["graph"])) != 1:
        raise DataError(f"{count} graphs in one file; each needs a file of its own")
    numeric = {key.get("id"): key for key in elements["key"] if key.get("attr.type") in _NUMERIC}
    defaults = [default for key in numeric.values() for default in key]
    for value in (*defaults, *(d for d in elements["data"] if d.get("key") in numeric)):
        text = (value.text or "").strip()
        if text and text.lower() != "nan":  # which is refused as not finite
            parse_number(text)
    return len(elements["node"])


def _gml(content: bytes) -> FileGraph:
    import networkx as nx

    # label="id": "label" stays an attribute, which may repeat.
    graph = nx.parse_gml(content.decode("utf-8-sig"), label="id")
    return _with_names(from_networkx(graph), graph)


def from_networkx(
    graph: Any, node_default: dict[str, Any] | None = None, weight_default: Any = None
) -> FileGraph:
    """A networkx graph; the parallel edges of a multigraph stay parallel edges."""
    number = {node: i for i, node in enumerate(graph)}
    nodes = [{**(node_default or {}), **data} for _, data in graph.nodes(data=True)]
    edges = graph.edges(data="weight", default=weight_default)
    triples = [(number[a], number[b], w) for a, b, w in edges]
    return file_graph(nodes, triples, directed=graph.is_directed())


def _with_names(graph: FileGraph, source: Any) -> FileGraph:
    names = {name for _, _, data in source.edges(data=True) for name in data}
    return graph._replace(edge_attributes=frozenset(names) - _NOT_ATTRIBUTES)


def _node_link(content: bytes) -> FileGraph:
    data = json.loads(content.decode("utf-8-sig"))
    links = data.get("links", data.get("edges")) if isinstance(data, dict) else None
    if links is None or not isinstance(data.get("nodes"), list):
        raise DataError("not node-link JSON: an object with the lists 'nodes' and 'links'")
    number: dict[str, int] = {}
    for i, node in enumerate(data["nodes"]):
        # Names may be any JSON; dumped, 1 and "1" stay apart and lists become hashable.
        if number.setdefault(json.dumps(node.get("id", i)), i) != i:
            raise DataError(f"two nodes have the id {node.get('id', i)!r}")
    triples = []
    for link in links:
        ends = [number.get(json.dumps(link[end])) for end in ("source", "target")]
        if ends[0] is None or ends[1] is None:
            raise DataError(f"a link names a node that is not there: {str(link)[:80]}")
        triples.append((ends[0], ends[1], link.get("weight")))
    nodes = [dict(islice(_flat(node), MOST_ATTRIBUTES + 1)) for node in data["nodes"]]
    graph = file_graph(nodes, triples, directed=bool(data.get("directed", False)))
    names = frozenset(name for link in links for name in link)
    graph = graph._replace(edge_attributes=names - _NOT_ATTRIBUTES)
    return graph if data.get("multigraph", False) else merge(graph)


def _flat(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Attributes of a JSON node; a list of numbers becomes one attribute per number."""
    for key, value in node.items():
        if key == "id":
            continue
        if isinstance(value, list) and all(isinstance(v, Real) for v in value):
            yield from ((f"{key}{i}", v) for i, v in enumerate(value))
        else:
            yield key, value


def _edge_list(content: bytes) -> FileGraph:
    number: dict[str, int] = {}
    triples: list[tuple[int, int, Any]] = []
    for row, line in enumerate(content.decode("utf-8-sig").splitlines(), start=1):
        text, brace, data = line.partition("{")
        cells = [c.strip("\"'") for c in text.replace(",", " ").replace(";", " ").split()]
        if line.strip()[:1] in ("", "#", "%"):
            continue
        if not triples and tuple(cell.lower() for cell in cells[:2]) in _HEADERS:
            continue
        if len(cells) not in ((2,) if brace else (2, 3)):
            raise DataError(f"line {row} has {len(cells)} columns, not 2 or 3: {line[:60]!r}")
        a, b = (number.setdefault(cell, len(number)) for cell in cells[:2])
        match = _WEIGHT.search(data)
        weight = cells[2] if len(cells) == 3 else match and match[1]
        triples.append((a, b, weight))
    return merge(file_graph([{} for _ in number], triples, directed=False))


PARSERS: dict[str, Callable[[bytes], FileGraph]] = {
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
