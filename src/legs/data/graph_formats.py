"""One graph from one file: GraphML, GML, node-link JSON, edge lists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from legs.data.errors import DataError
from legs.data.file_graph import FileGraph, build, merge

MOST_BYTES = 64 * 2**20
_LARGEST = float(np.finfo(np.float32).max)
_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2")}
# networkx writes the data of an edge as a dictionary.
_WEIGHT = re.compile(r"""['"]weight['"]\s*:\s*([^,}]+)""")


def read_graph(path: Path) -> FileGraph:
    """Reads a graph file of a known suffix (:data:`PARSERS`).

    Nodes come in the order of the file. Edge attribute ``weight`` is the weight, 1 where missing.
    Multigraphs keep parallel edges. In an edge list, a line is an undirected edge and naming it
    again changes nothing; only different weights for the two directions make it directed.

    Raises:
        DataError: the reason alone, without the file's name.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"{size / 2**20:.0f} MiB; files above {MOST_BYTES >> 20} are not read")
        graph = PARSERS[path.suffix.lower()](path.read_bytes())
    except DataError:
        raise
    # Parsers meet hostile text, and networkx's raise whatever comes (KeyError, RecursionError, …).
    except Exception as error:
        told = " ".join(str(error).split())[:160]
        raise DataError(f"cannot be read: {type(error).__name__}: {told}") from error
    if not graph.nodes:
        raise DataError("a graph without nodes")
    if graph.weight is not None:
        # NaN fails both comparisons; larger ones would be infinite in float32.
        wrong = np.flatnonzero(~((graph.weight >= 0) & (graph.weight <= _LARGEST)))
        if wrong.size:
            edge = int(wrong[0])
            raise DataError(
                f"edge {edge + 1} (nodes {graph.source[edge]} and {graph.target[edge]}) has weight "
                f"{graph.weight[edge]:g}; weights must be finite and not negative"
            )
    return graph


def _graphml(content: bytes) -> FileGraph:
    declared = _check_xml(content)
    import networkx as nx

    graph = nx.read_graphml(BytesIO(content))
    if len(graph) != declared:
        raise DataError("nodes are declared twice, or edges name nodes that are not declared")
    node_default = graph.graph.get("node_default", {})
    default = graph.graph.get("edge_default", {}).get("weight")
    return _from_networkx(graph, node_default, default)


def _check_xml(content: bytes) -> int:
    """Refuses document types, which entities need, and several graphs; counts the nodes."""
    from xml.parsers.expat import ParserCreate

    counts = {"graph": 0, "node": 0}

    def start(name: str, _: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if local in counts:
            counts[local] += 1

    def refuse(*_: Any) -> None:
        raise DataError("an XML file with a DOCTYPE, which is not read; remove it")

    parser = ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)
    if counts["graph"] != 1:
        raise DataError(f"{counts['graph']} graphs in one file; each needs a file of its own")
    return counts["node"]


def _gml(content: bytes) -> FileGraph:
    import networkx as nx

    # label="id": "label" stays an attribute, which may repeat.
    return _from_networkx(nx.parse_gml(content.decode("utf-8-sig"), label="id"))


def _from_networkx(
    graph: Any, node_default: dict[str, Any] | None = None, weight_default: Any = None
) -> FileGraph:
    number = {node: i for i, node in enumerate(graph)}
    nodes = [{**(node_default or {}), **data} for _, data in graph.nodes(data=True)]
    edges = graph.edges(data="weight", default=weight_default)
    triples = [(number[a], number[b], w) for a, b, w in edges]
    return build(nodes, triples, directed=graph.is_directed())


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
    nodes = [dict(_flat(node)) for node in data["nodes"]]
    graph = build(nodes, triples, directed=bool(data.get("directed", False)))
    return graph if data.get("multigraph", False) else merge(graph)


def _flat(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Attributes of a JSON node; a list of numbers becomes one attribute a number."""
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
        found = _WEIGHT.search(data)
        weight = cells[2] if len(cells) == 3 else found and found[1]
        triples.append((a, b, weight))
    return merge(build([{} for _ in number], triples, directed=False))


PARSERS: dict[str, Callable[[bytes], FileGraph]] = {
    ".graphml": _graphml,
    ".gml": _gml,
    ".json": _node_link,
    ".edgelist": _edge_list,
    ".edges": _edge_list,
    ".txt": _edge_list,
    ".csv": _edge_list,
}
