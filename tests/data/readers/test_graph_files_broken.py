from __future__ import annotations

import json
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legs.data.errors import BadRows, DataError
from legs.data.features.blocks import assemble
from legs.data.readers.graph_files import read_folder
from tests.data.graph_text import sample

VALID = {
    ".graphml": "\n".join(nx.generate_graphml(sample())),
    ".gml": "\n".join(nx.generate_gml(nx.path_graph(3))),
    ".json": json.dumps(nx.node_link_data(sample(), edges="links")),
    ".csv": "source,target,weight\n0,1,1.5\n1,2,0.5\n",
}
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
_json = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["nodes", "links", "id", "source", "target", "weight", "label", "m"]),
            inner,
            max_size=4,
        )
    ),
)


@st.composite
def broken(draw: Any) -> tuple[str, bytes]:
    """A valid file with a few bytes changed, removed or inserted, or any bytes."""
    suffix = draw(st.sampled_from([*VALID]))
    if suffix == ".json" and draw(st.booleans()):
        return suffix, json.dumps(draw(_json)).encode()
    if draw(st.integers(0, 4)) == 0:
        return suffix, draw(st.binary(max_size=60))
    content = bytearray(VALID[suffix].encode())
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(content)))
        length = draw(st.sampled_from([0, 1, 1, 5, 40]))
        content[place : place + length] = draw(st.binary(max_size=3) | st.sampled_from(TOKENS))
    return suffix, bytes(content)


TOKENS = [
    b"[",
    b"]",
    b"<",
    b"/>",
    b'"',
    b"NaN",
    b"-1",
    b"1e999",
    b"null",
    b"{",
    b"&lt;",
    b",",
    b" ",
]


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files=st.lists(broken(), min_size=1, max_size=3), table=st.binary(max_size=40) | st.none())
def test_broken_files_raise_nothing_but_data_errors(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[str, bytes]], table: bytes | None
) -> None:
    path = tmp_path_factory.mktemp("broken")
    for i, (suffix, content) in enumerate(files):
        (path / f"{i}{suffix}").write_bytes(content)
    if table is not None:
        (path / "labels.csv").write_bytes(b"file,y\n0,1\n1,2\n" + table)
    for on_error in ("raise", "skip"):
        try:
            raw = read_folder(path, directed="symmetrize", bad=BadRows(on_error))
            data = assemble(raw, [*raw.blocks, "structure"])
        except DataError:
            continue
        assert bool(torch.isfinite(data.x).all())
        assert len(data) == len(data.ids) > 0
