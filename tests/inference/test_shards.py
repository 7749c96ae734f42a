"""Files as folders of parts: every row once, in order, whatever happened in between."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from legs import io
from legs.data.errors import DataError
from legs.engine import LocalEngine
from legs.inference import embed as module
from legs.inference.embed import embed_file, embed_folder, open_embedder
from legs.inference.inputs import Reading, iter_batches
from legs.io import FileError, FileWarning
from legs.models.saving import ModelError
from tests.cli.molecules import rows

pytest.importorskip("rdkit", reason="the tables hold SMILES")
ONE = LocalEngine(workers=1)


@pytest.fixture(scope="module")
def embedder():
    return open_embedder("legs-fixed", features="atoms", options={"order": 1})


@pytest.fixture
def table(tmp_path):
    """47 rows; three of them are bad, one of these as a row and not as a molecule."""
    lines = [f"{row['smiles']},{row['name']}" for row in rows(44)]
    lines[5:5] = ["C1CC,ring"]
    lines[20:20] = ["CC"]
    lines += ["", "CC(,open"]
    file = tmp_path / "data.csv"
    file.write_text("smiles,id\n" + "\n".join(lines) + "\n")
    return file


def embed(embedder, table, out, **more):
    return embed_folder(embedder, table, out, **{"engine": ONE, "part": 10, **more})


@pytest.mark.parametrize("chunk", [3, 2000])
def test_the_same_numbers_as_in_one_file(embedder, table, tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(module, "CHUNK", chunk)
    out = tmp_path / "out"
    done = embed(embedder, table, out, on_error="skip")
    assert (done.rows, done.skipped, done.bad_file) == (47, 3, out / "_bad_rows.csv")
    found = pd.read_parquet(out)
    assert found["row"].tolist() == list(range(47))
    assert found["id"].tolist()[18:22] == ["m17", "m18", "", "m19"]
    assert list(found.index[found["C.mean"].isna()]) == [5, 20, 46]
    embed_file(embedder, table, tmp_path / "out.parquet", on_error="skip")
    whole = pd.read_parquet(tmp_path / "out.parquet").astype({"id": found["id"].dtype})
    good = found[found["C.mean"].notna()].reset_index(drop=True)
    pd.testing.assert_frame_equal(good.drop(columns="row"), whole)
    listed, wanted = (pd.read_csv(p) for p in (done.bad_file, tmp_path / "out.bad_rows.csv"))
    pd.testing.assert_frame_equal(listed, wanted)


def test_finished_parts_are_not_done_again(embedder, table, tmp_path, monkeypatch):
    out = tmp_path / "out"
    made = []

    def counted(shared, task):
        made.append(int(task[0].name[5:11]))
        if len(made) == 3:
            raise KeyboardInterrupt
        return make(shared, task)

    make = module.make_part
    monkeypatch.setattr(module, "make_part", counted)
    with pytest.raises(KeyboardInterrupt):
        embed(embedder, table, out, on_error="skip")
    assert not (out / "_done.json").exists()
    told = []
    done = embed(embedder, table, out, on_error="skip", report=told.append)
    assert made == [0, 1, 2, 2, 3, 4]
    assert (done.rows, done.skipped) == (47, 3)
    assert told[-1] == 47
    assert embed(embedder, table, out, on_error="skip") == done
    assert len(made) == 6


def test_an_input_that_changed_is_found(embedder, table, tmp_path):
    out = tmp_path / "out"
    embed(embedder, table, out, on_error="skip")
    text = table.read_text()
    table.write_text(text.replace(",m40", ",other"))
    with pytest.raises(FileError, match=r"part-000004\.parquet was made from other rows"):
        embed(embedder, table, out, on_error="skip")
    table.write_text("".join(text.splitlines(keepends=True)[:12]))
    (out / "part-000001.parquet").unlink()
    with pytest.raises(FileError, match=r"too many: part-000002\.parquet"):
        embed(embedder, table, out, on_error="skip")


def test_settings_are_those_it_began_with(embedder, table, tmp_path):
    out = tmp_path / "out"
    embed(embedder, table, out, on_error="skip")
    other = open_embedder("legs-fixed", features="atoms", options={"order": 1, "steps": 20})
    with pytest.raises(ModelError, match=r"embedder\.options\.steps"):
        embed(other, table, out, on_error="skip")
    (out / "_settings.json").unlink()
    with pytest.raises(FileError, match="holds files of others"):
        embed(embedder, table, out, on_error="skip")


def test_a_bad_row_stops_it_and_nothing_is_lost(embedder, table, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(DataError, match=r"data\.csv line 7: .*on_error='skip'"):
        embed(embedder, table, out)
    assert embed(embedder, table, out, on_error="skip").rows == 47
    none = tmp_path / "none.csv"
    none.write_text("smiles\nC1\nC2\n")
    with pytest.raises(DataError, match="no row that can be used"):
        embed(embedder, none, tmp_path / "none", on_error="skip")


def test_pieces_are_the_rows_in_order(table):
    (whole,) = iter_batches(Reading(), table, chunk=100, on_error="skip")
    for size in (1, 4, 19, 20, 46, 100):
        pieces = list(whole.pieces(size))
        assert sum(map(len, pieces)) == len(whole) == 47
        numbers = [n for piece in pieces for n in piece.frame.index]
        assert numbers == list(whole.frame.index)
        where = [w for piece in pieces for w in piece.read().where]
        assert where == whole.read().where
    assert (
        whole.digest() == next(iter_batches(Reading(), table, chunk=50, on_error="skip")).digest()
    )


def test_what_is_no_table_is_cut(tmp_path):
    folder = tmp_path / "graphs"
    folder.mkdir()
    for k in range(3):
        (folder / f"g{k}.edgelist").write_text("".join(f"{i} {i + 1}\n" for i in range(k + 2)))
    (folder / "g1x.edgelist").write_text("1 2 3 4 5\n")
    done = embed(open_embedder("legs-fixed"), folder, tmp_path / "out", part=2, on_error="skip")
    assert (done.rows, done.skipped) == (4, 1)
    found = pd.read_parquet(tmp_path / "out")
    assert found["row"].tolist() == [0, 1, 2, 3]
    assert found["id"].tolist()[::3] == ["g0", "g2"]


def content_of(out):
    return {file.name: file.read_bytes() for file in sorted(out.glob("part-*.parquet"))}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_damaged_part_is_computed_again(embedder, table, tmp_path, share):
    out = tmp_path / "out"
    embed(embedder, table, out, on_error="skip")
    before = content_of(out)
    file = out / "part-000002.parquet"
    changed = bytearray(before[file.name])
    changed[int(len(changed) * share)] ^= 4
    file.write_bytes(changed)
    with pytest.warns(FileWarning, match=r"part-000002\.parquet is damaged.*computed again"):
        embed(embedder, table, out, on_error="skip")
    assert content_of(out) == before


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "a part is missing"])
def test_parts_without_a_checksum_of_their_own_are_computed_again(
    embedder, table, tmp_path, damage
):
    """The list of checksums is damaged, or the run was killed before it wrote the last one."""
    out = tmp_path / "out"
    embed(embedder, table, out, on_error="skip")
    before, log = content_of(out), out / "_parts.jsonl"
    text = log.read_bytes()
    log.write_bytes(
        {
            "cut": text[:-20],
            "empty": b"",
            "flipped": text.replace(b'"part-000001', b'"part-000009'),
            "a part is missing": b"".join(text.splitlines(keepends=True)[:-1]),
        }[damage]
    )
    file = out / "part-000001.parquet"
    if damage in ("empty", "flipped"):  # nothing vouches for it any more
        broken = bytearray(before[file.name])
        broken[len(broken) // 3] ^= 1
        file.write_bytes(broken)
    embed(embedder, table, out, on_error="skip")
    assert content_of(out) == before
    assert embed(embedder, table, out, on_error="skip").rows == 47


def test_parts_without_a_list_are_computed_again(embedder, table, tmp_path):
    """Version 0.1.0 kept none."""
    out = tmp_path / "out"
    embed(embedder, table, out, on_error="skip")
    before = content_of(out)
    (out / "_parts.jsonl").unlink()
    (out / "part-000001.parquet").write_bytes(b"broken")
    embed(embedder, table, out, on_error="skip")
    assert content_of(out) == before


def test_a_start_that_was_killed_is_resumed(embedder, table, tmp_path, monkeypatch):
    kept = io.write_atomically

    def kill(path, content):
        if path.name == "_settings.json":
            raise KeyboardInterrupt
        kept(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(io, "write_atomically", kill)
        with pytest.raises(KeyboardInterrupt):
            embed(embedder, table, tmp_path / "out", on_error="skip")
    assert embed(embedder, table, tmp_path / "out", on_error="skip").rows == 47


@pytest.mark.parametrize("line", [1, {}, {"name": "part-000001.parquet"}, {"bad": [1]}, {"bad": 3}])
def test_lines_that_say_nothing_of_a_part(embedder, table, tmp_path, line):
    """Under a right checksum, too: the part is computed again."""
    out = tmp_path / "out"
    embed(embedder, table, out, on_error="skip")
    before, lines = content_of(out), (out / "_parts.jsonl").read_text().splitlines()
    if isinstance(line, dict):
        made = {k: v for k, v in json.loads(lines[1]).items() if k != "sha256"}
        line = io.with_digest({**made, **line} if "bad" in line else line)
    lines[1] = json.dumps(line)
    (out / "_parts.jsonl").write_text("\n".join(lines) + "\n")
    (out / "part-000001.parquet").write_bytes(b"broken")
    embed(embedder, table, out, on_error="skip")
    assert content_of(out) == before
