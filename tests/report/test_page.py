"""Pages of every kind of run: what they say, what they escape, what they do without."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

from legs.cli import main
from legs.report.folders import ReportError, kind_of, read_json, read_shown
from legs.report.page import read_page, render, script_json, write_pictures
from legs.report.plots import map_plot
from tests.cli.molecules import told
from tests.report.conftest import IMAGE, KINDS, SCRIPT


class Tags(HTMLParser):
    """Text and elements of a page, as a browser takes them."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.tags, self.handlers = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag):
        if tag in self.open:
            self.open.reverse()
            self.open.remove(tag)
            self.open.reverse()

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def parsed(path):
    return Tags(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", KINDS)
def test_one_file_with_everything_in_it(pages, kind):
    path = pages[kind]
    text = path.read_text(encoding="utf-8")
    assert path.name == "report.html"
    tags = parsed(path)
    assert tags.tags.count("script") == 3
    assert tags.handlers == []
    outside = text.replace(_plotly(text), "")
    # Names of XML and links in words are no requests.
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', outside) == []
    assert "@import" not in outside
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert set(data) == {"figures", "map", "templates"}


def _plotly(text):
    return text.split("<script>")[1].split("</script>")[0]


def test_names_are_escaped(pages):
    tags = parsed(pages["classes"])
    assert SCRIPT in tags.text
    assert IMAGE in tags.text
    assert "a<b>&c" in tags.text
    assert tags.tags.count("script") == 3
    assert "img" not in tags.tags
    assert tags.handlers == []
    assert "MUTAG <img" in parsed(pages["cv"]).text


def test_words_of_a_model_of_classes(pages, classes_run):
    text = parsed(pages["classes"]).text
    scores = read_json(classes_run / "results.json")["scores"]
    right = f"{100 * scores['test']['accuracy']:.1f}".removesuffix(".0")
    assert f"the accuracy is {right}%. Always predicting the most frequent class gives 50%" in text
    assert "the standard error of the accuracy is about" in text
    for title in (
        "Scores",
        "Data",
        "Ring systems (scaffolds)",
        "Test molecules",
        "Download all test predictions",
        "Learned scales and filters",
        "Map of the molecules",
        "Best and worst predictions",
        "Which part of the molecule mattered",
        "How to reproduce this run",
    ):
        assert title in text
    assert "seed 0" in text


def test_words_of_a_model_of_numbers(pages, numbers_run):
    text = parsed(pages["numbers"]).text
    scores = read_json(numbers_run / "results.json")["scores"]
    assert f"R² {scores['test']['r2']:.2f}" in text
    assert "predict nodes, edges and heat" in text
    assert "started from Python" in text
    assert "Errors on the test graphs" in text
    assert "An interval holds nine of ten new values" in text
    view = read_page(numbers_run)
    assert [trace.name for trace in view["figures"]["counts"].data] == [
        "training",
        "validation",
        "test",
    ]
    drawn = view["figures"]["residuals"].data[0].customdata
    index, cells = view["table"]["drawings"][0], view["table"]["rows"][0]
    assert index in drawn and cells[0] == view["run"].shown.table["id"].iloc[index]
    assert [row[0] for row in read_page(numbers_run)["targets"]] == ["nodes", "edges", "heat"]


def test_colors_of_a_map_ignore_outliers():
    figure = map_plot([*np.linspace(0, 1, 99), 1e6], "y")
    assert figure.layout.coloraxis.cmax < 1000


def test_curves_of_classes(classes_run):
    figures = read_page(classes_run)["figures"]
    area = float(re.search(r"area ([\d.]+)", figures["roc"].data[0].name)[1])
    scores = read_json(classes_run / "results.json")["scores"]["test"]
    assert area == pytest.approx(scores["roc_auc"], abs=0.006)


def test_words_of_a_cross_validation(pages, cv_run):
    text = parsed(pages["cv"]).text
    assert "2 methods were compared on 60 graphs" in text
    assert "3 test sets, one model on each" in text
    methods = {m["method"]: m for m in read_json(cv_run / "results.json")["methods"]}
    best = max(methods.values(), key=lambda m: m["mean"])
    assert f"{100 * best['mean']:.2f} ± {100 * best['std']:.2f}%" in text
    assert "legs cv MUTAG" in text
    assert "corrected resampled t-test" in text
    assert (
        "Expected calibration error" in text
    )  # how sure the models were is known from their votes
    assert "legs train DATA --model" in text  # no model is kept; how to get one


def test_a_model_in_the_folder_of_a_cross_validation_is_explained(cv_run, tmp_path):
    from legs.training import fit
    from tests.report.conftest import QUICK, page_of
    from tests.training.made import made_data, made_split

    folder = tmp_path / "cv"
    shutil.copytree(cv_run, folder)
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=folder / "one-model")
    text = parsed(page_of(folder)).text
    assert "From one LEGS-FCN, trained separately on 36 graphs" in text
    assert "raises the log-odds of the predicted class" in text
    assert "legs train DATA" not in text
    (folder / "one-model" / "results.json").unlink()  # killed before its end
    assert "legs train DATA" in parsed(page_of(folder)).text


def test_words_of_the_demonstration(pages, demo_run):
    text = parsed(pages["demo"]).text
    assert "4 models were trained to predict 10 properties" in text
    for name in ("LEGS-FCN", "LEGS-DEEP", "GCN", "Baseline", "mean of the training set"):
        assert name in text
    assert "legs demo" in text or "pytest" in text


def test_pages_do_without_what_a_folder_lacks(classes_run, cv_run, tmp_path):
    """Files may have been deleted; results of earlier versions contain fewer facts."""
    folder = tmp_path / "old"
    shutil.copytree(classes_run, folder)
    for name in ("scales.jsonl", "shown.npz", "shown.csv", "explained.json", "report.html"):
        (folder / name).unlink(missing_ok=True)
    known = read_json(folder / "results.json")
    for name in ("split", "command", "date", "machine"):
        del known[name]
    known["data"] = {name: known["data"][name] for name in ("name", "graphs", "features")}
    (folder / "results.json").write_text(json.dumps(known))
    text = Tags(render(read_page(folder))).text
    assert "Map of" not in text
    assert "mattered" not in text
    assert SCRIPT in text
    old_cv = tmp_path / "old-cv"
    shutil.copytree(cv_run, old_cv)
    for name in ("scales.json", "shown.npz", "shown.csv"):
        (old_cv / name).unlink()
    text = Tags(render(read_page(old_cv))).text
    assert "Map of" not in text
    assert "±" in text


def test_a_run_without_test_graphs_or_epochs(tmp_path):
    from legs.data.splits import Split
    from legs.training import fit
    from tests.report.conftest import QUICK, page_of
    from tests.training.made import made_data

    whole = Split(np.arange(40), np.arange(40, 60), np.arange(0))
    fit(made_data(), "legs-fixed", whole, QUICK, directory=tmp_path / "untested")
    text = parsed(page_of(tmp_path / "untested")).text
    assert "the performance on new ones is unknown" in text
    assert "the filters are not learned" in text
    fit(made_data(), "gs-svm", options=QUICK, directory=tmp_path / "svm")
    text = parsed(page_of(tmp_path / "svm")).text
    assert "there is no learning curve" in text
    assert "no network has a part" in text


def test_json_may_stand_in_a_script():
    evil = {"</script>": "<!--\u2028&"}
    text = script_json(evil)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == evil
    with pytest.raises(ValueError):
        script_json([float("nan")])


def test_every_plot_is_described_and_has_a_figure(pages):
    for kind in KINDS:
        text = pages[kind].read_text(encoding="utf-8")
        data = json.loads(text.split('id="data">')[1].split("</script>")[0])
        plots = re.findall(r'data-plot="(\w+)"[^>]*role="img" aria-label="([^"]+)"', text)
        assert {name for name, _ in plots} == set(data["figures"])
        assert all(label.endswith(".") for _, label in plots)


def test_pictures_of_a_run(pages, cv_run, tmp_path):
    # The run whose page was made: what explains its predictions is drawn as well.
    for run, least in ((pages["classes"].parent, 12), (cv_run, 3)):
        folder = tmp_path / run.name
        shutil.copytree(run, folder)
        files = write_pictures(folder)
        names = {path.name for path in files}
        assert len(names) == len(files) >= 4 * least
        assert {path.parent for path in files} == {folder / "pictures"}
        assert {"confusion-light.svg", "confusion-dark.png"} <= names


def test_a_folder_of_runs_is_no_run(tmp_path, numbers_run, capsys):
    shutil.copytree(numbers_run, tmp_path / "mine")
    assert main(["report", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert f"legs report {tmp_path / 'mine'}" in error
    assert not (tmp_path / "report.html").exists()


def test_folders_that_are_none(tmp_path):
    with pytest.raises(ReportError, match="no such folder"):
        kind_of(tmp_path / "nowhere")
    with pytest.raises(ReportError, match="holds no run"):
        kind_of(tmp_path)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for content in ({"scores": [1, 2]}, {"methods": ["a"]}, {"experiment": 1}, {"scores": {}}):
        (foreign / "results.json").write_text(json.dumps(content))
        with pytest.raises(ReportError, match="holds no run"):
            kind_of(foreign)
        with pytest.raises(ReportError, match="holds no run"):
            kind_of(tmp_path)
    (tmp_path / "checkpoint.bin").touch()
    with pytest.raises(ReportError, match="has not ended"):
        kind_of(tmp_path)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(ReportError, match="damaged"):
        kind_of(tmp_path)
    (tmp_path / "tables" / "cells").mkdir(parents=True)
    with pytest.raises(ReportError, match=r"a page of its own: .*results\.md"):
        kind_of(tmp_path / "tables")


def test_damaged_graphs_are_told(classes_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(classes_run, folder)
    (folder / "shown.npz").write_bytes(b"PK nonsense")
    with pytest.raises(ReportError, match=r"shown\.npz is damaged"):
        read_shown(folder)


def test_the_command(numbers_run, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(numbers_run, folder)
    out = tmp_path / "sub" / "page.html"
    assert main(["report", str(folder), "-o", str(out), "--explain", "heat"]) == 0
    printed = capsys.readouterr().out
    assert str(out) in printed.replace("\n", "")
    assert "the predicted heat" in parsed(out).text
    assert main(["report", str(folder), "--explain", "weight"]) == 1
    assert "predicts no 'weight'" in told(capsys)
    assert main(["report", str(tmp_path / "nowhere")]) == 1
    assert "no such folder" in told(capsys)


@pytest.mark.parametrize("name", ["shown.npz", "shown.csv"])
def test_graphs_of_a_cross_validation_are_verified(name, cv_run, tmp_path):
    folder = tmp_path / "cv"
    shutil.copytree(cv_run, folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ReportError, match=rf"{name} is damaged: its checksum is wrong"):
        read_page(folder)
