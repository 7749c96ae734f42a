"""What the benchmark of speed measures, at tiny sizes: the right rows, counts, and words."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from importlib.util import find_spec

import pytest
import torch

from benchmarks import performance
from benchmarks.packed import FOLDER, pack
from benchmarks.performance import sentences
from benchmarks.speed import GROUPS, Plan, run
from benchmarks.speed.cases import single_jobs
from benchmarks.speed.counting import Cost
from benchmarks.speed.graphs import load_local
from benchmarks.speed.methods import fused_path
from benchmarks.speed.rows import Bench, Limits, Row
from benchmarks.speed.timing import measurable
from legs.data.errors import DataError
from legs.kernels.op import use_fused
from tests.benchmarks.tiny import CPU, TINY, small


@pytest.fixture(scope="module")
def result():
    """A tiny run of everything."""
    return [*run(TINY, load=small)][-1]


def test_rows_of_a_run(result):
    found = {(r.group, r.case, r.work): [] for r in result.rows}
    for row in result.rows:
        found[row.group, row.case, row.work].append(row.method)
    others = ["auto", "reference", "gcn", "gin"]
    expected = {
        ("batches", "NCI1, 4 graphs"): others,
        ("batches", "NCI1, 6 graphs"): others,
        ("batches", "NCI1, 4 graphs, 2 models"): others[:2],
        ("single", "lattice, 400 edges"): others,
    }
    for (group, case), methods in expected.items():
        for work in ("train step", "inference"):
            got = found.pop((group, case, work))
            assert got == methods
    cases = ["edges = 128", "edges = 256", "steps = 8", "steps = 16"]
    for kind in ("random", "lattice"):
        assert found.pop(("single", f"{kind}, 400 edges", "diffusion")) == others[:2]
    assert found == {("growth", case, "train step"): others[:2] for case in cases}


def test_numbers_of_a_run(result):
    for row in result.rows:
        assert row.ms > 0
        assert row.first_s > 0
        assert row.replay_ms is None
        if row.method == "reference":
            assert row.ratio == 1
        if row.method in ("auto", "reference"):
            assert row.share > 0
            assert row.bytes > 0
            assert row.operations > 0
        else:
            assert row.share is None
            assert row.bytes is None
        if row.group == "growth" and measurable():
            assert row.memory_mb > 0
    by_case = {(r.case, r.work, r.method): r for r in result.rows}
    first = by_case["NCI1, 4 graphs", "train step", "auto"]
    reference = by_case["NCI1, 4 graphs", "train step", "reference"]
    assert first.ratio == pytest.approx(reference.ms / first.ms)
    cost = Cost(first.bytes, first.operations)
    assert first.share == pytest.approx(result.limits.seconds(cost) / first.ms * 1e3)
    auto, reference = (
        by_case["random, 400 edges", "diffusion", method] for method in ("auto", "reference")
    )
    assert auto.share / reference.share == pytest.approx(reference.ms / auto.ms)
    assert (first.graphs, first.nodes, first.edges, first.channels) == (4, 128, 512, 2)
    # The size that two series share is measured once.
    assert by_case["edges = 256", "train step", "auto"].ms == (
        by_case["steps = 16", "train step", "auto"].ms
    )


def test_what_is_missing_is_said(result):
    assert result.skipped == ["PROTEINS, 4 graphs: PROTEINS is not here"]


def test_paths_are_those_of_the_dispatcher(result):
    for row in result.rows:
        if row.method == "reference":
            assert row.path == "reference"
        elif row.method in ("gcn", "gin"):
            assert row.path == "pyg"
        elif row.method == "auto" and row.work != "diffusion":
            like = torch.ones(row.nodes, row.channels)
            assert row.path == (
                "cpu" if use_fused("auto", like, num_graphs=row.graphs) else "reference"
            )
    fused = "cpu" if find_spec("numba") else "reference"
    assert fused_path(torch.ones(4096, 2), graphs=128) == fused


def test_results_of_some_groups_come_case_by_case(capsys):
    plan = replace(TINY, whole_step_up_to=0)
    counts = [(len(result.rows), result.rows[-1].group) for result in run(plan, groups=["single"])]
    assert counts == [(2, "single"), (4, "single")]
    assert "1/2 lattice, 400 edges, diffusion\n" in capsys.readouterr().out


def test_results_as_json(result):
    facts = json.loads(json.dumps(result.as_dict()))
    assert {"machine", "versions", "date", "seed", "threads", "limits", "plan"} <= set(facts)
    assert set(facts["rows"][0]) == {field.name for field in fields(Row)}


def rows_of(case, times, work="train step", group="batches", **more):
    common = {"graphs": 1, "nodes": 1, "edges": 1, "channels": 1, "path": "cpu"}
    return [
        vars(Row(group, case, work, method=method, **common, ms=ms, **more))
        for method, ms in times.items()
    ]


def test_sentences_say_who_wins_and_who_loses():
    rows = rows_of("molecules", {"auto": 1.0, "reference": 20.0, "gin": 2.0, "gcn": 1.02})
    rows += rows_of("proteins", {"auto": 4.0, "reference": 8.0, "gin": 2.0, "gcn": None})
    assert sentences(rows) == [
        "train step against the reference: faster on molecules (20 ×); proteins (2.00 ×)",
        "train step against a GCN of three layers: as fast on molecules (1.02 ×)",
        "train step against a GIN of three layers: faster on molecules (2.00 ×), slower on "
        "proteins (0.50 ×)",
    ]
    assert sentences(rows_of("molecules", {"auto": 1.0})) == []


def test_a_sentence_of_bandwidth():
    rows = rows_of("random", {"auto": 1.0}, "diffusion", "single", share=0.61)
    rows += rows_of("nodes = 10", {"auto": 2.0}, group="growth", memory_mb=1)
    said = "diffusion reaches, of the bandwidth of a copy: 61% on random (cpu)"
    assert sentences(rows) == [said]


def test_the_full_plan_has_the_sizes_asked_for():
    bench = Bench(Plan(), CPU, Limits(1.0, 1.0), small)
    names = [name for name, _ in single_jobs(bench)]
    assert names[0] == "random, 10,000 edges, diffusion"
    assert "lattice, 10,000,000 edges, diffusion" in names
    assert (Plan().graphs, Plan().models, Plan().channels, Plan().steps) == (128, 90, 16, 16)


def test_the_page_of_results(result, tmp_path):
    facts = result.as_dict()
    more = {**facts, "threads": facts["threads"] + 1}
    results = tmp_path / "results"
    results.mkdir()
    with pytest.raises(SystemExit, match="no results"):
        performance.main(["page", "--output", str(results)])
    (results / "cpu.json").write_text(json.dumps({"runs": [facts, more]}))
    page = tmp_path / "page.md"
    performance.main(["page", "--output", str(results), "--page", str(page)])
    text = page.read_text()
    assert "| NCI1, 4 graphs | train step |" in text
    assert "diffusion of 3 channels, 2 steps" in text
    assert f"From {facts['threads']} to {more['threads']} threads" in text
    assert "PROTEINS is not here" in text
    assert "Replayed from" not in text
    assert facts["machine"] in text
    rows = [{**row, "replay_ms": row["ms"] / 4, "replay_ratio": 1.5} for row in facts["rows"]]
    gpu = {**facts, "device": "cuda", "machine": "Fast One", "rows": rows}
    (results / "fast.json").write_text(json.dumps({"runs": [gpu]}))
    performance.main(["page", "--output", str(results), "--page", str(page)])
    text = page.read_text()
    assert "## Fast One\n" in text
    assert "Replayed from a CUDA graph" in text
    assert "(1.50 ×)" in text
    assert "both replayed" in text


def test_packed_sets(tmp_path, monkeypatch):
    data = replace(small("NCI1"), y=torch.zeros(6, dtype=torch.long), task="classification")
    data = replace(data, info={"features": ["structure"]})
    pack(data, tmp_path / FOLDER / "NCI1.npz")
    monkeypatch.setenv("LEGS_DATA", str(tmp_path))
    assert torch.equal(load_local("NCI1").col, data.col)
    with pytest.raises(DataError, match="MUTAG is not here"):
        load_local("MUTAG")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    result = [*run(TINY, "cuda", load=small)][-1]
    assert {row.group for row in result.rows} == set(GROUPS)
    for row in result.rows:
        assert row.ms > 0
        assert row.memory_mb >= 0
        if row.method == "reference":
            assert row.replay_ms > 0
            assert row.replay_ratio == 1
