"""Folders of graph files: GraphML, GML, node-link JSON, edge lists; a file per graph."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch

from legs.data.dataset import Task
from legs.data.errors import BadRows, DataError, OnError
from legs.data.readers.base import Features, RawGraphs, Reader, Rows
from legs.data.readers.folders import read_files
from legs.data.readers.node_data import join_weights, number_block, one_hot_block
from legs.data.readers.text import parse_number
from legs.data.validate import LARGEST, check_degrees, check_magnitudes

MOST_BYTES = 64 * 2**20
MOST_ATTRIBUTES = 10_000  # of a node; a network's weights grow with them
_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2")}
# networkx writes the data of an edge as a dictionary.
_WEIGHT = re.compile(r"""['"]weight['"]\s*:\s*([^,}]+)""")
_NOT_ATTRIBUTES = frozenset({"source", "target", "weight", "id", "key"})  # of edges
_Array: TypeAlias = np.ndarray[Any, Any]


def read_folder(
    path: str | Path,
    *,
    target: str | Sequence[str] | None = None,
    task: Task | None = None,
    id_column: str | None = None,
    table: str | Path | None = None,
    directed: Literal["error", "symmetrize"] = "error",
    bad: BadRows | None = None,
) -> RawGraphs:
    """Reads a folder of graph files: GraphML, GML, node-link JSON, edge lists of 2 or 3 columns.

    Numeric node attributes become the block ``attributes``, one column each; a node without one of
    them makes its file bad. The node attribute ``label`` becomes the block ``labels``, one-hot over
    all graphs. Both are used by default, labels unless no two nodes of any graph share one: then
    they are names. The edge attribute ``weight`` is the weight.

    Args:
        path: the folder.
        target: target column or columns of the label table (default: the likely one).
        task: ``"classification"`` or ``"regression"``; see :mod:`legs.data.readers.targets`.
        id_column: column of the table that names the files (default: the one that does).
        table: the label table (default: ``labels.csv``, ``targets.csv``, ``graphs.csv`` or the
            same as TSV or Parquet, in the folder); without one there are no targets.
        directed: what to do about directed graphs: ``"error"``, or ``"symmetrize"`` to take every
            arc as an undirected edge, of the larger weight where there are two.
        bad: collects files that cannot be used (default: the first one raises).

    Raises:
        DataError: names the file, and says what to do.
    """
    bad = BadRows() if bad is None else bad
    rows = _rows(path, directed, bad, target=target, id_column=id_column, table=table)
    return rows.graphs(task, bad)


def iter_folder(
    path: str | Path,
    *,
    chunk: int | None = None,
    on_error: OnError = "raise",
    targets: Sequence[str] = (),
    directed: Literal["error", "symmetrize"] = "error",
    asked: Collection[str] = (),
    id_column: str | None = None,
) -> Iterator[Rows]:
    """The files of a folder as rows, all at once: one-hot columns depend on all graphs."""
    id_column = id_column if "id_column" in asked else None
    yield _rows(path, directed, BadRows(on_error), known_targets=targets, id_column=id_column)


def _rows(path: str | Path, directed: str, bad: BadRows, **options: Any) -> Rows:
    if directed not in ("error", "symmetrize"):
        raise DataError(f"directed is 'error' or 'symmetrize', not {directed!r}")
    parse = partial(_parse, symmetrize=directed == "symmetrize")
    build = partial(_build, path=path)
    return read_files(path, SUFFIXES, parse, build, what="graph", bad=bad, **options)


class _Graph(NamedTuple):
    file: str
    nodes: list[dict[str, Any]]
    edge_index: _Array  # [2, edges] int64, both directions
    edge_weight: _Array | None  # [edges]
    edge_attributes: frozenset[str]


def _parse(files: Sequence[Path], bad: BadRows, symmetrize: bool) -> dict[int, _Graph]:
    graphs = {}
    for number, file in enumerate(files):
        try:
            graph = read_graph(file)
        except DataError as error:
            bad.add(file.name, str(error))
            continue
        try:
            edges, weight = both_directions(graph, symmetrize=symmetrize)
        except DataError as error:  # a choice to make, not a broken file: never skipped
            raise DataError(f"{file.name}: {error}") from error
        graphs[number] = _Graph(file.name, graph.nodes, edges, weight, graph.edge_attributes)
    names, labelled = _attribute_names(graphs.values()), _have_labels(graphs.values())
    return {i: graph for i, graph in graphs.items() if _complete(graph, names, labelled, bad)}


def _build(graphs: Sequence[_Graph], ids: tuple[str, ...], path: str | Path) -> RawGraphs:
    nodes = [graph.nodes for graph in graphs]
    names, labelled = _attribute_names(graphs), _have_labels(graphs)
    blocks: dict[str, Callable[[], Features]] = {}
    if names:
        blocks["attributes"] = lambda: number_block(nodes, names, lambda i: graphs[i].file)
    if any("label" in node for graph in nodes for node in graph):
        blocks["labels"] = lambda: one_hot_block(nodes, "label", lambda i: graphs[i].file)
    ptr = np.cumsum([0, *map(len, nodes)])
    shifted = [graph.edge_index + start for graph, start in zip(graphs, ptr, strict=False)]
    return RawGraphs(
        torch.from_numpy(ptr),
        torch.from_numpy(np.concatenate(shifted, axis=1)),
        join_weights([(g.edge_index.shape[1], g.edge_weight) for g in graphs]),
        name=Path(path).name,
        ids=ids,
        blocks=blocks,
        default_features=("structure", *["labels"] * labelled, *["attributes"] * bool(names)),
        info={"source": str(path), "ignored": _ignored(graphs, names)},
    )


def _attribute_names(graphs: Iterable[_Graph]) -> tuple[str, ...]:
    """Names of all attributes that are a number somewhere, as they are first seen."""
    seen: dict[str, None] = {}
    for graph in graphs:
        for node in graph.nodes:
            seen.update(
                dict.fromkeys(k for k, value in node.items() if isinstance(value, int | float))
            )
    seen.pop("label", None)
    return tuple(seen)


def _have_labels(graphs: Iterable[_Graph]) -> bool:
    """Whether nodes have labels; where all of every graph differ, as in GML, they are names."""
    for graph in graphs:
        labels = [node["label"] for node in graph.nodes if "label" in node]
        if len(set(map(str, labels))) < len(labels):
            return True
    return False


def _ignored(graphs: Sequence[_Graph], names: Sequence[str]) -> list[str]:
    """Attributes of nodes and edges that no features are made of."""
    of_nodes = dict.fromkeys(name for graph in graphs for node in graph.nodes for name in node)
    of_edges = sorted({name for graph in graphs for name in graph.edge_attributes})
    return [f"node attribute {name}" for name in of_nodes if name not in (*names, "label")] + [
        f"edge attribute {name}" for name in of_edges
    ]


def _complete(graph: _Graph, names: Sequence[str], labelled: bool, bad: BadRows) -> bool:
    for k, node in enumerate(graph.nodes):
        for name in names:
            value = node.get(name)
            # In float32, as it will be kept.
            if not isinstance(value, int | float) or not abs(value) <= LARGEST:
                value = "no attribute" if value is None else f"{str(value)[:40]!r} as attribute"
                bad.add(graph.file, f"node {k} has {value} {name!r}, where others have numbers")
                return False
        label = node.get("label")
        if labelled and (not isinstance(label, str | int | float) or label != label):
            bad.add(graph.file, f"node {k} has no label, others have")
            return False
    try:
        for name in names:
            check_magnitudes(np.array([float(node[name]) for node in graph.nodes]), name)
        if graph.edge_weight is not None:
            check_degrees(graph.edge_index[0], graph.edge_weight)
    except DataError as error:
        bad.add(graph.file, str(error))
        return False
    return True


class FileGraph(NamedTuple):
    """A graph as its file describes it, with every edge once."""

    nodes: list[dict[str, Any]]  # attributes of each node
    source: _Array  # [edges] int64
    target: _Array  # [edges] int64
    weight: _Array | None  # [edges] float64
    directed: bool
    edge_attributes: frozenset[str] = frozenset()  # names, those of weights aside


def build(
    nodes: list[dict[str, Any]],
    triples: Sequence[tuple[int, int, Any]],
    *,
    directed: bool,
    edge_attributes: Iterable[str] = (),
) -> FileGraph:
    """A graph from edges ``(node, node, weight)``; weights of ``None`` are 1."""
    ends = np.array([triple[:2] for triple in triples], dtype=np.int64).reshape(-1, 2)
    values = [triple[2] for triple in triples]
    weight = None
    if any(w is not None for w in values):
        weight = np.array([_weight(w, edge) for edge, w in enumerate(values, start=1)])
    names = frozenset(edge_attributes) - _NOT_ATTRIBUTES
    return FileGraph(nodes, ends[:, 0], ends[:, 1], weight, directed, names)


def _weight(value: Any, edge: int) -> float:
    if value is None:
        return 1.0
    try:
        return parse_number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        raise DataError(f"edge {edge} has weight {str(value)[:40]}, not a number") from None


def merge(graph: FileGraph) -> FileGraph:
    """One edge for every edge named twice; if the directions differ in weight, a directed graph."""
    size, weight = len(graph.nodes), graph.weight
    _, first, place = np.unique(
        graph.source * size + graph.target, return_index=True, return_inverse=True
    )
    if weight is not None:
        differ = np.flatnonzero(weight[first][place] != weight)
        if differ.size and not np.isnan(weight).any():
            edge = int(differ[0])
            raise DataError(f"edge {edge + 1} is listed before with another weight")
    once = graph._replace(
        source=graph.source[first],
        target=graph.target[first],
        weight=None if weight is None else weight[first],
    )
    if graph.directed:
        return once
    low, high = np.minimum(once.source, once.target), np.maximum(once.source, once.target)
    _, first, place = np.unique(low * size + high, return_index=True, return_inverse=True)
    if once.weight is not None and (once.weight[first][place] != once.weight).any():
        return once._replace(directed=True)
    return once._replace(
        source=once.source[first],
        target=once.target[first],
        weight=None if once.weight is None else once.weight[first],
    )


def both_directions(graph: FileGraph, *, symmetrize: bool) -> tuple[_Array, _Array | None]:
    """Edges ``[2, edges]`` in both directions and their weights ``[edges]``.

    A directed graph whose arcs all have an equal counterpart is an undirected one. Any other is
    refused, or becomes one with an edge wherever there is an arc, of the larger weight of the two
    directions.

    Raises:
        DataError: directed, and ``symmetrize`` is false.
    """
    source, target, weight = graph.source, graph.target, graph.weight
    if not graph.directed:
        once = source != target  # a loop is its own reverse
        edges = np.stack(
            [np.concatenate([source, target[once]]), np.concatenate([target, source[once]])]
        )
        return edges, None if weight is None else np.concatenate([weight, weight[once]])
    size = len(graph.nodes)
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
    larger = np.concatenate([np.maximum(there, back), np.maximum(there, back)])
    pairs, first = np.unique(np.concatenate([arcs, reverse]), return_index=True)
    both = larger[first]
    return np.stack([pairs // size, pairs % size]), None if (both == 1).all() else both


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
        reason = " ".join(str(error).split())[:160]
        raise DataError(f"cannot be read: {type(error).__name__}: {reason}") from error
    if not graph.nodes:
        raise DataError("a graph without nodes")
    for k, node in enumerate(graph.nodes):
        _check_attributes(k, len(node))
    if graph.weight is not None:
        # NaN fails both comparisons; larger ones would be infinite in float32.
        wrong = np.flatnonzero(~((graph.weight >= 0) & (graph.weight <= LARGEST)))
        if wrong.size:
            edge = int(wrong[0])
            raise DataError(
                f"edge {edge + 1} (nodes {graph.source[edge]} and {graph.target[edge]}) has weight "
                f"{graph.weight[edge]:g}; weights must be finite and not negative"
            )
    return graph


def _check_attributes(node: int, count: int) -> None:
    if count > MOST_ATTRIBUTES:
        raise DataError(
            f"node {node} has {count:,} attributes; more than {MOST_ATTRIBUTES:,} are not read"
        )


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
    """Refuses document types, which entities need, and several graphs; counts the nodes.

    Values of numeric attributes must be numbers: networkx reads them as Python does.
    """
    from xml.parsers.expat import ParserCreate

    counts = {"graph": 0, "node": 0}
    numeric: set[str] = set()  # ids of attributes
    value: list[str] | None = None  # text of the attribute being read, if it is numeric
    key = ""

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal key, value
        local = name.rpartition(":")[2]
        if local in counts:
            counts[local] += 1
        if local == "key":
            key = attributes.get("id", "")
            if attributes.get("attr.type") in ("int", "long", "float", "double"):
                numeric.add(key)
        if local in ("data", "default"):
            key = attributes.get("key", key)
            value = [] if key in numeric else None

    def text(part: str) -> None:
        if value is not None:
            value.append(part)

    def end(name: str) -> None:
        nonlocal value
        if name.rpartition(":")[2] in ("data", "default"):
            content, value = "".join(value or ()).strip(), None
            if content and content.lower() != "nan":  # which is refused as not finite
                parse_number(content)

    def refuse(*_: Any) -> None:
        raise DataError("an XML file with a DOCTYPE, which is not read; remove it")

    parser = ParserCreate()
    parser.StartElementHandler = start
    parser.CharacterDataHandler = text
    parser.EndElementHandler = end
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
    names = {name for _, _, data in graph.edges(data=True) for name in data}
    return build(nodes, triples, directed=graph.is_directed(), edge_attributes=names)


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
    for k, node in enumerate(data["nodes"]):
        _check_attributes(k, sum(len(v) if isinstance(v, list) else 1 for v in node.values()))
    nodes = [dict(_flat(node)) for node in data["nodes"]]
    graph = build(
        nodes,
        triples,
        directed=bool(data.get("directed", False)),
        edge_attributes={name for link in links for name in link},
    )
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
        match = _WEIGHT.search(data)
        weight = cells[2] if len(cells) == 3 else match and match[1]
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

SUFFIXES = tuple(PARSERS)
READER = Reader(
    read_folder,
    frozenset({"target", "task", "id_column", "table", "directed", "bad"}),
    iter_folder,
    SUFFIXES,
)
