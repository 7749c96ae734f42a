"""Downloads from a server on this machine: whole, or nothing under the file's name."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from legs.data.catalog.fetch import download
from legs.data.errors import DataError
from tests.data.tu_sets import TWO_GRAPHS, write_zip
from tests.data.web import serve

BODY = os.urandom(700_000)
DIGEST = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def web():
    with serve() as server:
        server.files["/file.bin"] = BODY
        yield server


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_file(web, tmp_path):
    path = tmp_path / "new" / "file.bin"
    assert download(f"{web.address}/file.bin", path, sha256=DIGEST.upper()) == path
    assert path.read_bytes() == BODY
    assert names(path.parent) == ["file.bin"]
    download(f"{web.address}/file.bin", path)
    assert web.requests == [None]  # there is no second one


def test_a_broken_download_leaves_nothing(web, tmp_path):
    path, url = tmp_path / "file.bin", f"{web.address}/file.bin"
    web.cut = 300_000
    with pytest.raises(DataError, match=r"broke off after 300,000 of 700,000 bytes"):
        download(url, path, sha256=DIGEST)
    assert names(tmp_path) == []
    download(url, path, sha256=DIGEST)
    assert path.read_bytes() == BODY
    assert names(tmp_path) == ["file.bin"]


def test_a_wrong_checksum_leaves_nothing(web, tmp_path):
    with pytest.raises(DataError, match=f"sha256 is {DIGEST}, not 00"):
        download(f"{web.address}/file.bin", tmp_path / "file.bin", sha256="00" * 32)
    assert names(tmp_path) == []


def test_a_damaged_zip_leaves_nothing(web, tmp_path):
    good = write_zip(tmp_path / "good.zip", TWO_GRAPHS).read_bytes()
    damaged = bytearray(good)
    damaged[60] ^= 1
    web.files |= {"/a.zip": bytes(damaged), "/b.zip": b"<html>not found</html>", "/c.zip": good}
    for name in ("a.zip", "b.zip"):
        with pytest.raises(DataError, match="not a whole zip file"):
            download(f"{web.address}/{name}", tmp_path / "cache" / name)
    assert names(tmp_path / "cache") == []
    assert download(f"{web.address}/c.zip", tmp_path / "cache" / "c.zip").read_bytes() == good


def test_not_found(web, tmp_path):
    with pytest.raises(DataError, match="404"):
        download(f"{web.address}/none.bin", tmp_path / "none.bin")
    assert names(tmp_path) == []


def test_no_server(tmp_path):
    with serve() as server:
        address = server.address
    with pytest.raises(DataError, match=r"the download from .* failed \(.*refused"):
        download(f"{address}/file.bin", tmp_path / "file.bin")
    assert names(tmp_path) == []


def test_size_is_bounded(web, tmp_path):
    with pytest.raises(DataError, match="larger than 1,000 bytes"):
        download(f"{web.address}/file.bin", tmp_path / "file.bin", largest=1000)
    assert names(tmp_path) == []


def test_the_folder_cannot_be_written(web, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="failed"):
        download(f"{web.address}/file.bin", tmp_path / "file" / "file.bin")


def test_several_at_once(web, tmp_path):
    path, url = tmp_path / "file.bin", f"{web.address}/file.bin"
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: download(url, path), range(4))) == [path] * 4
    assert path.read_bytes() == BODY
    assert names(tmp_path) == ["file.bin"]


def test_only_http_and_https(web, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("text")
    for url in (secret.as_uri(), "ftp://127.0.0.1/secret.txt", "data:text/plain,text", "secret"):
        with pytest.raises(DataError, match="only http and https addresses are downloaded"):
            download(url, tmp_path / "new" / "secret.txt")
    assert not (tmp_path / "new").exists()
    web.redirects["/secret.txt"] = "ftp://127.0.0.1/secret.txt"
    with pytest.raises(DataError, match=r"^ftp://127.*: only http and https addresses"):
        download(f"{web.address}/secret.txt", tmp_path / "secret2.txt")
    web.files["/text.txt"] = b"text"
    web.redirects["/moved.txt"] = f"{web.address}/text.txt"
    assert download(f"{web.address}/moved.txt", tmp_path / "moved.txt").read_bytes() == b"text"
