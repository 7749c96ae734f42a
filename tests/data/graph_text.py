"""Made-up graphs as files, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx


def sample() -> Any:
    graph = nx.Graph()
    graph.add_node("a", mass=1.5, charge=0, label="C")
    graph.add_node("b", mass=2.5, charge=-1, label="O")
    graph.add_node("c", mass=0.5, charge=0, label="C")
    graph.add_edge("a", "b", weight=2.0)
    graph.add_edge("b", "c", weight=0.5)
    graph.add_edge("c", "c", weight=3.0)
    return graph


def write(path: Path, graph: Any) -> None:
    match path.suffix:
        case ".graphml":
            nx.write_graphml(graph, path)
        case ".gml":
            # networkx writes the name of a node as its label.
            lines = list(nx.generate_gml(nx.convert_node_labels_to_integers(graph)))
            labels = iter(nx.get_node_attributes(graph, "label").values())
            if any(True for _ in nx.get_node_attributes(graph, "label")):
                lines = [
                    f'    label "{next(labels)}"' if line.startswith("    label") else line
                    for line in lines
                ]
            path.write_text("\n".join(lines))
        case ".json":
            path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))
        case _:
            nx.write_weighted_edgelist(graph, path)
