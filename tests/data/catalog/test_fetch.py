"""Where data is looked for, and what people are told when it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from legs.data.catalog import fetch
from legs.data.errors import DataError
from tests.data.web import serve


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A data folder and a cache, both empty."""
    data, cache = tmp_path / "data", tmp_path / "cache" / "torch-legs"
    data.mkdir()
    monkeypatch.setenv("LEGS_DATA", str(data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return data, cache


def put(folder: Path, relative: str, text: str = "x") -> Path:
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_data_folder_comes_before_the_cache(places):
    data, cache = places
    assert fetch.find("qm9/qm9.parquet") is None
    in_cache = put(cache, "qm9/qm9.parquet")
    assert fetch.find("qm9/qm9.parquet") == in_cache
    in_data = put(data, "qm9/qm9.parquet")
    assert fetch.find("qm9/qm9.parquet") == in_data
    assert fetch.require("qm9/qm9.parquet", url="http://127.0.0.1:9/never") == in_data


def test_parts_of_downloads_are_not_found(places):
    put(places[1], "tu/A.zip.part")
    assert fetch.find("tu/A.zip") is None


def test_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("LEGS_DATA", raising=False)
    assert fetch.data_dir() is None
    monkeypatch.setenv("LEGS_DATA", str(tmp_path / "none"))
    with pytest.raises(DataError, match=r"LEGS_DATA is set to .*none, which is not a folder"):
        fetch.find("a")
    monkeypatch.setenv("LEGS_DATA", "~nosuchuser/data")
    with pytest.raises(DataError, match="LEGS_DATA is set to ~nosuchuser/data, which is not a"):
        fetch.find("a")
    monkeypatch.setenv("HOME", str(tmp_path))
    for odd in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", odd)
        assert fetch.cache_dir() == tmp_path / ".cache" / "torch-legs"


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../../b", "", "~/x", "a\\b", "c:x", "a\0"]
)
def test_paths_stay_inside(places, path):
    for call in (fetch.find, fetch.require):
        with pytest.raises(DataError, match="not a path inside the data folder"):
            call(path)


def test_nowhere_to_download_from(places):
    _, cache = places
    with pytest.raises(DataError) as caught:
        fetch.require("ki/x.parquet")
    message = str(caught.value)
    assert str(cache / "ki/x.parquet") in message
    assert "LEGS_DATA" in message
    assert "no public address" in message


def test_download_into_the_cache(places):
    with serve() as web:
        web.files["/x.bin"] = b"abc"
        path = fetch.require("some/x.bin", url=f"{web.address}/x.bin")
        assert path == places[1] / "some/x.bin"
        assert path.read_bytes() == b"abc"
        assert fetch.find("some/x.bin") == path


def test_offline_says_what_to_do(places):
    with serve() as web:
        address = f"{web.address}/x.bin"
    with pytest.raises(DataError) as caught:
        fetch.require("some/x.bin", url=address)
    message = str(caught.value)
    assert f"download {address} elsewhere and put it at {places[1] / 'some/x.bin'}" in message
    assert "set LEGS_DATA to a folder that holds some/x.bin" in message


def test_packages():
    assert fetch.find_in_package("numpy", "__init__.py").is_file()
    assert fetch.find_in_package("numpy", "no/such/file") is None
    assert fetch.find_in_package("no_such_package_here", "x") is None
    with pytest.raises(DataError, match="not a path"):
        fetch.find_in_package("numpy", "../torch/__init__.py")
