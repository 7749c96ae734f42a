from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from legs.data.errors import BadRows, DataError
from legs.data.readers.table_files import LONGEST_LINE, delimiter_of, is_text, lines, rows, words


def write(folder: Path, content: bytes | str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\n1,2\n",
        b"a,b\r\n1,2\r\n",
        b"a,b\r1,2",
        b"\xef\xbb\xbfa,b\n1,2\n",
        "\ufeffa,b\n1,2\n".encode("utf-16-le"),
        gzip.compress(b"a,b\n1,2\n", mtime=0),
        b'"a","b"\n"1","2"\n',
        b"a,b\n\n1,2\n,\n  \n",
    ],
)
def test_rows_come_out_whatever_the_packing(tmp_path: Path, content: bytes) -> None:
    found = rows(write(tmp_path, content), ",", BadRows())
    assert [fields for _, fields in found] == [["a", "b"], ["1", "2"]]


def test_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    found = rows(write(tmp_path, 'a,b\n\n1,"two\nlines"\n3,4\n'), ",", BadRows())
    assert [(line, fields[0]) for line, fields in found] == [(1, "a"), (3, "1"), (5, "3")]


def test_a_quote_that_stays_open_is_bad(tmp_path: Path) -> None:
    path = write(tmp_path, 'a,b\n1,2\n"3,4\n5,6\n')
    bad = BadRows("skip")
    assert [line for line, _ in rows(path, ",", bad)] == [1, 2]
    assert bad.rows[0].where == "table.csv line 3"
    assert "quotation mark" in bad.rows[0].reason


def test_a_line_of_100_mb_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with path.open("wb") as file:
        file.write(b"a,b\n1,2\n")
        for _ in range(100):
            file.write(b"C" * 1_000_000)
        file.write(b",3\n5,6\n")
    for read in (words(path), rows(path, ",", BadRows("skip"))):
        with pytest.raises(DataError, match=f"table.csv line 3: longer than {LONGEST_LINE:,} char"):
            list(read)


def test_a_field_of_1_mb_is_bad_and_the_rest_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n" + "C" * 1_000_000 + ",3\n5,6\n")
    bad = BadRows("skip")
    assert [line for line, _ in rows(path, ",", bad)] == [1, 3]
    assert bad.rows[0].where == "table.csv line 2"


def test_words_are_a_string_and_a_name(tmp_path: Path) -> None:
    found = words(write(tmp_path, "CCO  ethyl alcohol \n\n C\t\n"))
    assert list(found) == [(1, ["CCO", "ethyl alcohol"]), (3, ["C", ""])]


def test_a_stray_byte_is_no_text_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    found = list(rows(write(tmp_path, b"caf\x81,b\n1,2\n"), ",", BadRows()))
    assert [is_text(field) for field in found[0][1]] == [False, True]
    assert is_text("café") and not is_text("a\0b")
    assert found[1][1] == ["1", "2"]


@pytest.mark.parametrize(
    ("name", "header", "delimiter"),
    [
        ("t.csv", "a,b", ","),
        ("t.csv", "a;b", ";"),
        ("t.csv", "a\tb,c\td", "\t"),
        ("t.csv", "a", ","),
        ("t.tsv", "a,b,c", "\t"),
        ("t.tsv.gz", "a", "\t"),
    ],
)
def test_the_delimiter_is_the_most_frequent(
    tmp_path: Path, name: str, header: str, delimiter: str
) -> None:
    assert delimiter_of(write(tmp_path, header, name)) == delimiter


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\x03\x04abc", "Excel"),
        (b"PAR1abc", "Parquet"),
        (gzip.compress(b"a,b\n" * 100, mtime=0)[:-10], "cannot be read"),
        (b"\xff\xfea", "cannot be read"),
    ],
)
def test_other_files_are_told_apart(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        list(lines(write(tmp_path, content)))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not there"):
        list(lines(tmp_path / "none.csv"))
    with pytest.raises(DataError, match="folder"):
        list(lines(tmp_path))
