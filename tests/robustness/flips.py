"""``python -m tests.robustness.flips``: bytes changed in every file we keep, and who notices."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import torch
from pyarrow import parquet

from benchmarks.packed import pack, unpack
from legs.data import DataError
from legs.data.catalog.cache import load_dataset, save_dataset
from legs.data.dataset import GraphDataset
from legs.data.splits import load_splits
from legs.engine import LocalEngine
from legs.explain import explain_run
from legs.inference.embed import embed_folder, open_embedder
from legs.io import FileError, FileWarning
from legs.models.saving import load_directory
from legs.report.folders import ReportError, read_train
from legs.training import fit
from legs.training.checkpoint import load_state
from legs.training.cv.store import Store
from legs.training.runs import FILES, Records
from reproduction.cell import read_cells
from tests.fuzz import targets_runs as runs
from tests.fuzz.seeds import folder_of, splits
from tests.fuzz.target import Files, write
from tests.robustness.origin import parser_of, write_counts
from tests.training.made import QUICK, made_data, made_split


class Kept(NamedTuple):
    """Files that we keep, and how they are read: to values that can be compared."""

    files: Files
    read: Callable[[Path], Any]
    beside: Files | None = None  # files that stay as they are


def kinds() -> dict[str, Kept]:
    """All that is kept on disk and read again."""
    data = made_data(graphs=6, weighted=True)
    prepared = folder_of(lambda folder: save_dataset(folder / "set", data))
    packed = folder_of(lambda folder: pack(made_data(graphs=6), folder / "some.npz"))
    network, predictor = runs.predictor_folders()[0], runs.predictor_folders()[1]
    finished = runs.run_folders()[0]
    results = {name: finished[name] for name in ("results.json", *FILES) if name in finished}
    settings = {"settings.json": json.dumps(runs.SETTINGS, indent=1).encode()}
    return {
        "models (networks)": Kept(network, _model),
        "models (support vector machines)": Kept(predictor, _model),
        "checkpoints": Kept(runs.checkpoint_folder(), _checkpoint),
        "cross-validations": Kept(runs.store_folder(), _store),
        "results of reproduce": Kept(runs.cells_folder(), read_cells),
        "prepared data sets": Kept(prepared, lambda folder: _dataset(load_dataset(folder / "set"))),
        "packed data sets": Kept(packed, lambda folder: _dataset(unpack(folder / "some.npz"))),
        "splits": Kept(splits(), lambda folder: load_splits(folder / "s.json", 12)),
        "settings of runs": Kept(settings, _settings),
        "results of runs": Kept(results, _results),
        "explanations": _explained_run("explained.json"),
        "models of reports": _explained_run("model/weights.safetensors", "model/model.json"),
        "parts of embed": Kept(_embedded_folder(), _embedded),
    }


def flip(kind: Kept, folder: Path, every: int, rng: Random) -> Counter[str]:
    """Changes a byte in every ``every`` of each file, one at a time, and reads.

    Returns:
        How many were tried, how many led to a refusal, how many to the very same values, and how
        many were accepted with other values: ``"tried"``, ``"refused"``, ``"same"``, ``"silent"``.
    """
    write(folder, {**(kind.beside or {}), **kind.files})
    truth = kind.read(folder)
    if not same(kind.read(folder), truth):
        raise AssertionError("what is read twice must be the same, or nothing can be told")
    found: Counter[str] = Counter()
    for name, content in kind.files.items():
        for start in range(0, len(content), every):
            place = min(start + rng.randrange(every), len(content) - 1)
            changed = content[place] ^ (1 << rng.randrange(8))
            (folder / name).write_bytes(content[:place] + bytes([changed]) + content[place + 1 :])
            found["tried"] += 1
            try:
                found["same" if same(kind.read(folder), truth) else "silent"] += 1
            except (DataError, FileError, ReportError):
                found["refused"] += 1
        # A file that ends too early, at all lengths.
        for end in range(0, len(content), max(every * 10, 1)):
            (folder / name).write_bytes(content[:end])
            found["tried"] += 1
            try:
                found["same" if same(kind.read(folder), truth) else "silent"] += 1
            except (DataError, FileError, ReportError):
                found["refused"] += 1
        (folder / name).write_bytes(content)
    return found


def same(a: Any, b: Any) -> bool:
    """Whether values are the same to the last bit."""
    return [*_leaves(a)] == [*_leaves(b)]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield (str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes())
    elif hasattr(value, "tobytes"):
        yield (str(value.dtype), value.tobytes())
    elif isinstance(value, dict):
        for name in sorted(value):
            yield name
            yield from _leaves(value[name])
    elif isinstance(value, list | tuple):
        yield len(value)
        for each in value:
            yield from _leaves(each)
    elif hasattr(value, "__dataclass_fields__"):
        yield from _leaves({each.name: getattr(value, each.name) for each in fields(value)})
    else:
        yield repr(value)


def _model(folder: Path) -> Any:
    description, tensors = load_directory(folder)
    # The checksums are no part of the model.
    return {name: v for name, v in description.items() if name != "sha256"}, tensors


def _checkpoint(folder: Path) -> Any:
    return load_state(folder / "checkpoint.bin", runs.SETTINGS)


def _store(folder: Path) -> Any:
    store = Store(folder, runs.SETTINGS)
    partial = load_state(folder / "models" / "gin-0-0.partial", {})
    return store.load("gcn-0-0"), partial


def _dataset(data: GraphDataset) -> Any:
    return {each.name: getattr(data, each.name) for each in fields(data)}


def _settings(folder: Path) -> Any:
    Records(folder, runs.SETTINGS)  # settings that differ are refused
    return None


def _results(folder: Path) -> Any:
    run = read_train(folder)
    splits = load_splits(folder / "split.json")
    # The digest itself is no result, whatever its name has become.
    known = {name: value for name, value in run.results.items() if not _digest(value)}
    tables = [run.history, run.predictions, run.shown and run.shown.table]
    texts = [None if table is None else table.to_csv() for table in tables]
    arrays = run.shown and {k: v for k, v in vars(run.shown).items() if k != "table"}
    return known, texts, arrays, splits


@cache
def _explained() -> Files:
    options = {"hidden_channels": 4, "num_scales": 2, "steps": 4}
    data, split = made_data(graphs=30), made_split(30)

    def make(folder: Path) -> None:
        fit(data, "legs-fcn", split, QUICK, model_options=options, directory=folder)
        explain_run(folder)

    return folder_of(make)


def _explained_run(*names: str) -> Kept:
    """A run with explanations, of which some files change."""
    files = _explained()
    beside = {name: content for name, content in files.items() if name not in names}
    return Kept({name: files[name] for name in names}, _report, beside)


def _report(folder: Path) -> Any:
    run = read_train(folder)
    # Names of checksums are no part of a model.
    model = {name: value for name, value in run.model.items() if name != "sha256"}
    explained = {k: v for k, v in (run.explained or {}).items() if not _digest(v)}
    return explained, model


GRAPHS = {f"g{k}.edgelist": "".join(f"{i} {i + 1}\n" for i in range(k + 2)) for k in range(4)}


def _embedded_folder() -> Files:
    files = folder_of(_embedded)
    return {name: files[name] for name in files if name.startswith("out/") and ".lock" not in name}


def _embedded(folder: Path) -> Any:
    """Resumes, and reads the numbers: a damaged part is computed again."""
    graphs = folder / "graphs"
    graphs.mkdir(exist_ok=True)
    for name, text in GRAPHS.items():
        (graphs / name).write_text(text)
    embedder = open_embedder("legs-fixed", options={"order": 0})
    with catch_warnings():
        simplefilter("ignore", FileWarning)
        embed_folder(embedder, graphs, folder / "out", engine=LocalEngine(workers=1), part=2)
    return [
        [column.to_pylist() for column in parquet.read_table(file).columns]
        for file in sorted((folder / "out").glob("part-*.parquet"))
    ]


def _digest(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64


def main() -> int:
    """Tries all bytes, and writes the counts; the exit code is 1 if any was accepted silently."""
    parser = parser_of("tests.robustness.flips", __doc__, "flips.json")
    parser.add_argument("--every", type=int, default=1, help="one in so many bytes (1)")
    parser.add_argument("--rounds", type=int, default=1, help="so many times, other bits (1)")
    given = parser.parse_args()
    start, rng = time.monotonic(), Random(0)
    rows: dict[str, dict[str, int]] = {}
    for name, kind in kinds().items():
        total: Counter[str] = Counter({word: 0 for word in ("tried", "refused", "same", "silent")})
        for _ in range(given.rounds):
            with tempfile.TemporaryDirectory() as folder:
                total += flip(kind, Path(folder), given.every, rng)
        rows[name] = {word: total[word] for word in ("tried", "refused", "same", "silent")}
        print(f"{name:35} {rows[name]}")
    known = {
        "seconds": round(time.monotonic() - start, 1),
        "every": given.every,
        "tried": sum(row["tried"] for row in rows.values()),
        "silent": sum(row["silent"] for row in rows.values()),
        "files": rows,
    }
    write_counts(given, known)
    return 1 if known["silent"] else 0


if __name__ == "__main__":
    sys.exit(main())
