"""What ``legs report`` and a resumed ``legs embed -o FOLDER`` do with damaged folders."""

from __future__ import annotations

import hashlib
import io
import json
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from legs.engine import LocalEngine
from legs.explain import explain_folder
from legs.inference.embed import Embedder, embed_folder, open_embedder
from legs.io import digest_of
from legs.report.drawings import graph_layout
from legs.report.page import write_page
from legs.training import CVOptions, cross_validate, fit
from legs.training.cv.results import write_results
from legs.training.runs import FILES
from legs.training.shown import write_cv_shown
from tests.fuzz.mutate import VALUES, mutated, mutated_json
from tests.fuzz.seeds import folder_of
from tests.fuzz.target import Broken, Files, Target
from tests.fuzz.targets_runs import other_tensors
from tests.training.made import QUICK, made_data, made_split

READ = ("results.json", "explained.json", "model/model.json", "model/weights.safetensors", *FILES)
WEIGHTS, MODEL = "model/weights.safetensors", "model/model.json"
FAST = {"draws": 1, "tolerance": 1.0, "most": 4}  # explanations of less than a tenth of a second
GRAPHS = {
    f"graphs/g{k}.edgelist": "".join(f"{i} {i + 1}\n" for i in range(k + 2)).encode()
    for k in range(4)
}


@cache
def run_seeds() -> tuple[Files, ...]:
    """Explained runs of ``legs train``: classes, numbers, support vector machines."""
    options = {"hidden_channels": 4, "num_scales": 2, "steps": 4}
    return (
        _run("classification", "legs-fcn", 10, options),
        _run("regression", "legs-fcn", 10, options),
        _run("classification", "gs-svm", 12, {}),
    )


def _run(task: str, method: str, graphs: int, options: dict[str, Any]) -> Files:
    def make(folder: Path) -> None:
        data, split = made_data(task, graphs), made_split(graphs)
        fit(data, method, split, QUICK, model_options=options, directory=folder)
        with patch("legs.explain.runs.QUALITY", FAST):
            explain_folder(folder)

    # Other files of a run are not read.
    return {name: text for name, text in folder_of(make).items() if name in READ}


@cache
def cv_seeds() -> tuple[Files, ...]:
    """Cross-validations."""

    def make(folder: Path, methods: list[str]) -> None:
        options = CVOptions(folds=3, rotations=1, training=QUICK)
        result = cross_validate(
            made_data(graphs=10), methods, options, directory=folder, strategy="stacked"
        )
        write_results(result, folder, command="legs cv")
        write_cv_shown(folder, result)
        explain_folder(folder)

    made = [folder_of(partial(make, methods=m)) for m in (["legs-fcn", "baseline"], ["gcn"])]
    kept = ("predictions.csv", "results.json", "scales.json", "shown.csv", "shown.npz")
    return tuple({n: text for n, text in files.items() if n.startswith(kept)} for files in made)


def read_report(folder: Path) -> str:
    """The page of ``legs report``, but for the library that draws its plots."""
    with (
        patch("legs.explain.runs.QUALITY", FAST),
        patch("plotly.offline.get_plotlyjs", return_value=""),
        patch("legs.report.drawings.graph_layout", partial(graph_layout, rounds=2)),
    ):
        explain_folder(folder)
        return write_page(folder).read_text(encoding="utf-8")


def _whole_page(page: str) -> None:
    if not page.startswith("<!doctype html>") or not page.rstrip().endswith("</html>"):
        raise Broken(f"no whole page: {page[:80]!r} … {page[-80:]!r}")


def resealed_run(rng: Random, files: Files) -> Files:
    """Other values in one of a run's files, under right checksums."""
    found = dict(files)
    name = rng.choice(sorted(files))
    if name.endswith(".json"):
        found[name] = json.dumps(mutated_json(rng, json.loads(files[name]))).encode()
    elif name.endswith(".npz"):
        found[name] = other_arrays(rng, files[name])
    elif name == WEIGHTS:
        found[name] = other_tensors(rng, files[name])
    else:
        found[name] = mutated(rng, files[name], (b"nan,", b"1e400,"))
    if rng.random() < 0.2:  # has to be computed again
        found.pop("explained.json", None)
    return _sealed(found)


def _sealed(files: Files) -> Files:
    """All checksums of a run's files, right again."""
    found = dict(files)
    weights = _digest(found, WEIGHTS)
    # Those with checksums of others come after them.
    order = sorted((name for name in found if name.endswith(".json")), key=_rank)
    for name in order:
        known = json.loads(found[name])
        if not isinstance(known, dict):
            continue
        if isinstance(known.get("weights"), str):
            known["weights"] = weights
        if isinstance(known.get("files"), dict):
            known["files"] = {file: _digest(found, file) for file in known["files"]}
        if "sha256" in known:
            own = digest_of({key: value for key, value in known.items() if key != "sha256"})
            sealed = {"weights.safetensors": weights, "model.json": own}
            known["sha256"] = sealed if name == MODEL else own
        found[name] = json.dumps(known).encode()
    return found


def _rank(name: str) -> int:
    return {"results.json": 1, "explained.json": 1}.get(name, 0)


def _digest(files: Files, name: str) -> str:
    return hashlib.sha256(files.get(name, b"")).hexdigest()


def other_arrays(rng: Random, content: bytes) -> bytes:
    """An npz file with arrays of other values, types or shapes."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    match rng.randrange(8):
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = array[..., :0] if array.ndim else array[None]
        case 2:
            kinds = ("<i1", "<i8", "<u8", "<f2", "<f8", "?", "<U3", "<c16", "<M8[s]")
            arrays[name] = array.astype(rng.choice(kinds))
        case 3:
            arrays[name] = array.reshape(-1)[: rng.randrange(5)]
        case 4:
            arrays[name] = np.concatenate([np.atleast_1d(array)] * rng.choice((2, 3, 50)))
        case 5:
            arrays[rng.choice(sorted(arrays))] = array
        case _:
            changed = array.reshape(-1).copy()
            for _ in range(rng.randrange(1, 4)):
                value = rng.choice([v for v in VALUES if isinstance(v, int | float | str)])
                changed[rng.randrange(len(changed))] = value
            arrays[name] = changed.reshape(array.shape)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


@cache
def embedded_folder() -> Files:
    """Graphs, and the finished output of ``legs embed -o FOLDER`` for them."""

    def make(folder: Path) -> None:
        for name, content in GRAPHS.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        resume_embed(folder)

    return folder_of(make)


@cache
def _embedder() -> Embedder:
    return open_embedder("legs-fixed", options={"order": 0})


def resume_embed(folder: Path) -> list[Any]:
    """Runs the command again, in this process. Returns all rows of its parts."""
    engine = LocalEngine(workers=1)
    embed_folder(_embedder(), folder / "graphs", folder / "out", engine=engine, part=2)
    return [
        [column.to_pylist() for column in parquet.read_table(file).columns]
        for file in sorted((folder / "out").glob("part-*.parquet"))
    ]


def _resume_sealed(folder: Path) -> int:
    """As :func:`resume_embed`; parts that are vouched for may hold anything."""
    engine = LocalEngine(workers=1)
    done = embed_folder(_embedder(), folder / "graphs", folder / "out", engine=engine, part=2)
    return done.rows


def _all_rows(rows: int) -> None:
    if rows != len(GRAPHS):
        raise Broken(f"{rows} rows, not {len(GRAPHS)}")


def _same_rows(truth: Any, found: Any) -> None:
    if found != truth:
        raise Broken(f"other rows than those of an undamaged run: {str(found)[:200]}")


def _outputs(files: Files) -> list[str]:
    return [name for name in sorted(files) if name.startswith("out/") and files[name]]


def _damaged(rng: Random, files: Files) -> Files:
    name = rng.choice(_outputs(files))
    others = tuple(files[other] for other in _outputs(files))
    return {**files, name: mutated(rng, files[name], others)}


def _resealed_parts(rng: Random, files: Files) -> Files:
    """Other parts, or another list of them, under right checksums."""
    found = dict(files)
    name = rng.choice([name for name in _outputs(files) if name != "out/_parts.jsonl"])
    if name.endswith(".json"):
        found[name] = _with_checksum(mutated_json(rng, json.loads(files[name])))
    elif rng.random() < 0.3:
        found[name] = mutated(rng, files[name], (b"PAR1",))
    else:
        table = parquet.read_table(io.BytesIO(files[name]))
        file = io.BytesIO()
        parquet.write_table(table.slice(rng.randrange(2), rng.randrange(3)), file)
        found[name] = file.getvalue()
    lines = []
    for line in files["out/_parts.jsonl"].splitlines():
        made = json.loads(line)
        made["file"] = _digest(found, f"out/{made['name']}")
        lines.append(_with_checksum(mutated_json(rng, made) if rng.random() < 0.3 else made))
    return {**found, "out/_parts.jsonl": b"".join(line + b"\n" for line in lines)}


def _with_checksum(values: Any) -> bytes:
    """JSON values under a right checksum."""
    if isinstance(values, dict):
        rest = {key: value for key, value in values.items() if key != "sha256"}
        values = {**rest, "sha256": digest_of(rest)}
    return json.dumps(values).encode()


def report_targets() -> list[Target]:
    """All of them."""
    pa.set_cpu_count(1)
    runs, cvs, parts = run_seeds(), cv_seeds(), [embedded_folder()]
    again = ("explained.json", "report.html")
    truth = [
        [column.to_pylist() for column in parquet.read_table(io.BytesIO(parts[0][name])).columns]
        for name in _outputs(parts[0])
        if name.endswith(".parquet")
    ]
    made: list[Target] = []
    for name, seeds in (("legs report of runs", runs), ("legs report of cross-validations", cvs)):
        made += [
            Target(name, seeds, read_report, _whole_page, rewrites=again),
            Target(
                f"{name}, right checksums",
                seeds,
                read_report,
                _whole_page,
                resealed_run,
                rewrites=again,
            ),
        ]
    return [
        *made,
        Target(
            "legs embed, resumed",
            parts,
            resume_embed,
            partial(_same_rows, truth),
            _damaged,
            rewrites=("out/*",),
        ),
        Target(
            "legs embed, resumed, right checksums",
            parts,
            _resume_sealed,
            _all_rows,
            _resealed_parts,
            rewrites=("out/*",),
        ),
    ]
