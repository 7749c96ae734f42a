"""No command deletes or overwrites what it did not make, and none overwrites its own input."""

from __future__ import annotations

import pytest

from legs.cli import main
from legs.training.runs import run_directory
from tests.cli.molecules import QUICK, read, rows, told, write

MINE = {
    "settings.json": '{"editor": "dark"}',
    "metrics.jsonl": "mine",
    "scales.jsonl": "mine",
    "bad_rows.csv": "smiles,kind\nC,alkane\n",
    "results.csv": "mine",
    "demo.json": "{}",
    "notes/.paper.tex.abcdefgh.tmp": "mine",
}


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_text(errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def project(tmp_path):
    """A folder of somebody's own files, with names that commands use too."""
    for name, text in MINE.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "data.csv", ("smiles", "kind"))


@pytest.mark.parametrize(
    "words",
    [
        "train {data}",
        "train missing.csv",
        "train {data} --on-error skip",
        "cv {data} --model baseline --folds 3 --epochs 2",
        "embed legs-fixed {data}",
        "reproduce dataset-stats --datasets MUTAG",
        "demo --limit 60",
    ],
)
def test_a_folder_of_others_is_refused_and_left_alone(words, project, table, capsys):
    args = [word.replace("{data}", str(table)) for word in words.split()]
    assert main([*args, "-o", str(project)]) == 1
    assert str(project) in told(capsys)
    assert files(project) == MINE


@pytest.mark.parametrize("name", ["settings.json", "metrics.jsonl", "model/model.json"])
def test_one_file_of_another_is_enough(name, tmp_path, table, capsys):
    path = tmp_path / "p" / name
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert main(["train", str(table), "-o", str(tmp_path / "p"), *QUICK]) == 1
    err = told(capsys)
    assert f"{tmp_path / 'p'} holds files of others ({name.split('/')[0]}); choose a new" in err
    assert files(tmp_path / "p") == {name: "{}"}


def test_a_folder_with_a_lock_or_bad_rows_of_ours_is_used(tmp_path, capsys):
    found = rows()
    found[3]["smiles"] = "C1CC"
    data = write(tmp_path / "data.csv", ("smiles", "kind"), found)
    run = tmp_path / "run"
    run.mkdir()
    args = ["train", str(data), "-o", str(run), *QUICK]
    assert main(args) == 1  # a bad row
    (run / "bad_rows.csv").write_text("where,reason\nold.csv line 2,none\n")
    assert main([*args, "--on-error", "skip"]) == 0
    assert [row["where"] for row in read(run / "bad_rows.csv")] == ["data.csv line 5"]


def test_a_refused_run_leaves_bad_rows_alone(tmp_path, capsys):
    found = rows()
    found[3]["smiles"] = "C1CC"
    data = write(tmp_path / "data.csv", ("smiles", "kind"), found)
    args = ["train", "-o", str(tmp_path / "run"), *QUICK, "--on-error", "skip"]
    assert main([*args, str(data)]) == 0
    before = files(tmp_path / "run")
    found[5]["smiles"] = "C1CC"
    write(data, ("smiles", "kind"), found)
    capsys.readouterr()
    assert main([*args, str(data)]) == 1
    assert "other settings" in told(capsys)
    assert files(tmp_path / "run") == before


def test_what_a_failed_start_left_is_kept_until_the_input_was_read(tmp_path, table, capsys):
    args = ["-o", str(tmp_path / "run"), *QUICK]
    assert main(["train", str(table), *args, "--lr", "1e30"]) == 1
    before = files(tmp_path / "run")
    assert "settings.json" in before
    assert main(["train", str(tmp_path / "missing.csv"), *args]) == 1
    assert files(tmp_path / "run") == before
    assert main(["train", str(table), *args]) == 0


def test_results_of_a_cross_validation_are_written_under_its_lock(tmp_path, table, monkeypatch):
    out = tmp_path / "cv"
    held = []

    def write_shown(folder, result):
        from concurrent.futures import ThreadPoolExecutor

        def other():
            with run_directory(folder):
                pass

        with ThreadPoolExecutor() as pool:
            held.append(str(pool.submit(other).exception()))

    monkeypatch.setattr("legs.training.shown.write_cv_shown", write_shown)
    args = ["--model", "baseline", "--folds", "3", "--epochs", "2", "--strategy", "stacked"]
    assert main(["cv", str(table), "-o", str(out), *args]) == 0
    assert "is being written by another thread" in held[0]


BROKEN = "smiles,kind\nCC,alkane\nC1CC,alkane\nCO,alcohol\n"


@pytest.mark.parametrize("linked", ["", "symlink", "hardlink"])
def test_derived_names_do_not_overwrite_the_input(linked, tmp_path, capsys):
    data = tmp_path / "lib.bad_rows.csv"
    data.write_text(BROKEN)
    given = data
    if linked:
        given = tmp_path / "given.csv"
        (given.symlink_to if linked == "symlink" else given.hardlink_to)(data)
    args = ["embed", "legs-fixed", str(given), "-o", str(tmp_path / "lib.csv")]
    assert main([*args, "--on-error", "skip"]) == 1
    assert "lib.bad_rows.csv would replace" in told(capsys)
    assert data.read_text() == BROKEN
    assert not (tmp_path / "lib.csv").exists()


def test_a_list_of_bad_rows_replaces_only_another(tmp_path, capsys):
    (tmp_path / "in.csv").write_text(BROKEN)
    listed = tmp_path / "out.bad_rows.csv"
    listed.write_text("mine")
    out = str(tmp_path / "out.csv")
    args = ["embed", "legs-fixed", str(tmp_path / "in.csv"), "-o", out, "--on-error", "skip"]
    assert main(args) == 1
    assert "out.bad_rows.csv is no list of bad rows" in told(capsys)
    assert listed.read_text() == "mine"
    listed.write_text("where,reason\nold,old\n")
    assert main(args) == 0
    assert "in.csv line 3" in listed.read_text()


def test_a_run_does_not_overwrite_its_input(tmp_path, table, capsys):
    run = tmp_path / "run"
    assert main(["train", str(table), "-o", str(run), *QUICK]) == 0
    write(run / "bad_rows.csv", ("smiles", "kind"))
    before = files(run)
    for given in (
        ["train", str(run / "bad_rows.csv"), "-o", str(run), "--on-error", "skip", *QUICK],
        ["train", str(table), "-o", str(run), "--split", str(run / "split.json"), *QUICK],
        ["predict", str(run), str(run / "bad_rows.csv"), "-o", str(run / "bad_rows.csv")],
        ["predict", str(run), str(table), "-o", str(run / "test_predictions.csv")],
        ["embed", str(run), str(run), "-o", str(run)],
        ["embed", str(run), str(table), "-o", str(run / "metrics.csv")],
    ):
        capsys.readouterr()
        assert main(given) == 1
        assert "would replace" in told(capsys)
        assert files(run) == before


def test_a_cross_validation_does_not_overwrite_its_input(tmp_path, table, capsys):
    out = tmp_path / "cv"
    args = ["--model", "baseline", "--folds", "3", "--epochs", "2", "--strategy", "stacked"]
    assert main(["cv", str(table), "-o", str(out), *args]) == 0
    write(out / "predictions.csv", ("smiles", "kind"))
    before = files(out)
    capsys.readouterr()
    assert main(["cv", str(out / "predictions.csv"), "-o", str(out), *args]) == 1
    assert "would replace" in told(capsys)
    assert files(out) == before


def test_a_page_replaces_pages_only(tmp_path, table, capsys):
    run = tmp_path / "run"
    assert main(["train", str(table), "-o", str(run), *QUICK]) == 0
    (tmp_path / "mine.html").write_text("<!doctype html>\n<p>mine</p>")
    before = files(tmp_path)
    for out in (table, run / "results.json", tmp_path / "mine.html"):
        capsys.readouterr()
        assert main(["report", str(run), "-o", str(out)]) == 1
        assert f"{out} is no page of legs report" in told(capsys)
        assert files(tmp_path) == before
    for _ in range(2):
        assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == 0
