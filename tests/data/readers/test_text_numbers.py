"""Numbers in text: what is one, decimal commas, bounds."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from legs.data.catalog.tu import find_files, read_columns
from legs.data.errors import BadRows, DataError
from legs.data.readers.graph_files import read_folder
from legs.data.readers.targets import encode_targets, parse_column, parse_number
from legs.io.cells import safe_cell

NOT_NUMBERS = ["1_0", "2_3.5", "１０", "٣", "0x10", "1e", "nan", "1 000", "", "--1", "1,5", "½"]


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_what_python_alone_takes_for_numbers(text: str) -> None:
    with pytest.raises(DataError, match="not a number"):
        parse_number(text)


def test_long_digits_take_linear_time(tmp_path: Path) -> None:
    """A pattern that tries all ways to cut the digits in two would take minutes."""
    digits, start = 300_000 * "9", time.process_time()
    with pytest.raises(DataError, match="not a number"):
        parse_number(f"{digits}x")
    assert safe_cell(f"+{digits}x").startswith("'+9")
    (tmp_path / "S_A.txt").write_text("1, 2\n2, 1\n")
    (tmp_path / "S_x.txt").write_text(f"0.5\n{digits}x\n")
    with pytest.raises(DataError, match=r"S_x\.txt line 2 .* is not a number"):
        read_columns(find_files(tmp_path), "x", "float32")
    assert time.process_time() - start < 5


def test_numbers() -> None:
    texts = ["1", "-2.5", "+.5", "3.", "1e-3", " 4\t", "-Inf", "Infinity"]
    assert [parse_number(t) for t in texts] == [1, -2.5, 0.5, 3, 1e-3, 4, -math.inf, math.inf]


def column(values: list[Any]) -> Any:
    return parse_column(
        "t", pd.Series(values, dtype=object), [f"row {i + 1}" for i in range(len(values))]
    )


def encode(values: list[Any], task: Any = None, bad: BadRows | None = None) -> Any:
    return encode_targets(
        pd.DataFrame({"t": pd.Series(values, dtype=object)}), ["t"], task, bad=bad
    )


def test_underscores_are_no_part_of_a_number() -> None:
    with pytest.raises(DataError, match=r"row 2: .*'1_0'"):
        encode(["1.5", "1_0", "2.5"])
    bad = BadRows("skip")
    assert encode(["1.5", "1_0", "２", "2.5"], "regression", bad).y.flatten().tolist() == [1.5, 2.5]
    assert [where for where, _ in bad] == ["row 2", "row 3"]


def test_decimal_commas() -> None:
    found = column(["3,14", "-2", "1,234", ",5", "1,5e3"])
    assert (found.kind, found.number.tolist()) == ("floats", [3.14, -2, 1.234, 0.5, 1500])
    assert encode(["3,14", "2,5", "7"]).y.flatten().tolist() == pytest.approx([3.14, 2.5, 7])
    bad = BadRows("skip")
    assert len(encode(["3,14", "2,5", "n.d."], "regression", bad).y) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["3,14", "7", "2.5"], r"row 1: .*'t'.*'3,14'.*'2\.5' in row 3"),
        (["1,234", "5,678"], r"row 1: .*'1,234'.*thousands"),
        (["1,234,567", "5"], r"row 1: .*'1,234,567'.*thousands"),
        (["5", "1,234.5"], r"row 2: .*'1,234\.5'.*thousands"),
        (["5,1", "1.234,5"], r"row 2: .*'1\.234,5'.*thousands"),
    ],
)
@pytest.mark.parametrize("task", [None, "regression"])
def test_commas_that_could_mean_two_things(values: list[str], message: str, task: Any) -> None:
    with pytest.raises(DataError, match=message):
        encode(values, task, BadRows("skip"))


def test_commas_in_names_are_no_numbers() -> None:
    assert encode(["a,b", "c,d", "a,b"]).class_names == ("a,b", "c,d")
    assert encode(["1,234", "2.5"], "classification").class_names == ("1,234", "2.5")


@pytest.mark.parametrize("value", [">7.5", "<0.1", "≥ 3", "<=2", "~5", "> 1,5"])
def test_censored_values_are_named(value: str) -> None:
    with pytest.raises(DataError, match=rf"row 2: .*'t' holds '{value}', a censored value"):
        encode(["1.5", value, "2.5"])
    bad = BadRows("skip")
    assert len(encode(["1.5", value, "2.5"], "regression", bad).y) == 2
    assert "censored" in next(iter(bad))[1]
    table = pd.DataFrame({"a": ["1.5", "2", "0.5"], "b": ["1.5", value, "2.5"]})
    with pytest.raises(DataError, match=rf"row 2: .*'b' holds '{value}', a censored value"):
        encode_targets(table, ["a", "b"])


GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="w" for="edge" attr.name="weight" attr.type="double"/>
<key id="s" for="node" attr.name="size" attr.type="{type}"/>
<graph edgedefault="undirected"><node id="a"><data key="s">{size}</data></node><node id="b">
<data key="s">2</data></node><edge source="a" target="b"><data key="w">{weight}</data></edge>
</graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "source,target,weight\n1,2,1_0\n"),
        ("a.edgelist", "1 2 {'weight': 1_0}\n"),
        ("a.json", '{"nodes": [{"id": 1}, {"id": 2}], "links": '
         '[{"source": 1, "target": 2, "weight": "1_0"}]}'),
        ("a.gml", "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 weight 1_0 ] ]"),
    ],
)  # fmt: skip
def test_graph_files(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"{name}: "):
        read_folder(tmp_path)
    (tmp_path / name).write_text(content.replace("1_0", "10"))
    read_folder(tmp_path)


def test_graphml_text_may_look_like_anything(tmp_path: Path) -> None:
    (tmp_path / "a.graphml").write_text(GRAPHML.format(type="string", size="1_0", weight="1"))
    read_folder(tmp_path)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_tu_files(tmp_path: Path, dtype: str) -> None:
    (tmp_path / "S_A.txt").write_text("1, 2\n2, 1\n")
    for text in ("1_0", "0x10", "１０"):
        (tmp_path / "S_x.txt").write_text(f"1\n{text}\n")
        with pytest.raises(DataError, match=r"S_x\.txt line 2"):
            read_columns(find_files(tmp_path), "x", dtype)
