"""Readers of what runs leave: models, checkpoints, results. Each with bytes damaged and, since a
checksum stops most of that, with other values under a right checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from benchmarks.packed import pack, unpack
from legs.data.catalog import cache as prepared_sets
from legs.data.catalog.cache import load_dataset, save_dataset
from legs.io import digest_of
from legs.models import create
from legs.report.folders import kind_of, read_train
from legs.training import load
from legs.training.checkpoint import State, load_state, save_state
from legs.training.cv.store import Store, Trained
from legs.training.runs import FILES, Records, find_model
from reproduction.cell import read_cells, write_cell
from reproduction.plan import Cell
from tests.fuzz.mutate import mutated, mutated_json
from tests.fuzz.seeds import folder_of
from tests.fuzz.target import Broken, Files, Target
from tests.fuzz.targets_data import whole
from tests.reproduction.made import row
from tests.training.made import QUICK, made_data, made_split

SETTINGS = {"model": "gcn", "training": {"lr": 0.001, "seed": 0}}


def network_folders() -> list[Files]:
    """Bare networks of several kinds."""
    options: dict[str, dict[str, Any]] = {
        "legs-fcn": {"hidden_channels": 4, "num_scales": 2, "steps": 4},
        "legs-rbf": {"num_anchors": 3, "num_scales": 2, "steps": 4},
        "gcn": {"hidden_channels": 4, "num_layers": 2},
        "baseline": {"hidden_channels": 4},
    }
    return [folder_of(create(name, 2, 3, **given).save) for name, given in options.items()]


@cache
def run_folders() -> tuple[Files, ...]:
    """Directories of runs: a network, and support vector machines."""
    from legs.training import fit

    found = []
    for name, given in {"baseline": {"hidden_channels": 4}, "gs-svm": {}}.items():
        how = {"options": QUICK, "model_options": given}
        make = partial(fit, made_data(graphs=30), name, made_split(30), **how)
        found.append(folder_of(lambda folder, make=make: make(directory=folder)))
    return tuple(found)


def predictor_folders() -> list[Files]:
    """Models with all they need for raw input."""
    return [
        {name[6:]: content for name, content in files.items() if name.startswith("model/")}
        for files in run_folders()
    ]


def resealed(rng: Random, files: Files, description: str, weights: str) -> Files:
    """Other values in a model's description or weights, under right checksums."""
    known = json.loads(files[description])
    content = files[weights]
    if rng.random() < 0.8:
        known = mutated_json(rng, known)
    else:
        content = other_tensors(rng, content)
    if isinstance(known, dict):
        rest = {name: value for name, value in known.items() if name != "sha256"}
        known["sha256"] = {
            weights: hashlib.sha256(content).hexdigest(),
            description: digest_of(rest),
        }
    return {**files, description: json.dumps(known).encode(), weights: content}


def other_tensors(rng: Random, content: bytes) -> bytes:
    """A safetensors file with a tensor of other values, another type or shape, or without it."""
    tensors = load_tensors(content)
    name = rng.choice(sorted(tensors))
    match rng.randrange(5):
        case 0:
            del tensors[name]
        case 1:
            tensors[name] = torch.full((rng.randrange(4), 2), float("nan"))
        case 2:
            tensors[name] = tensors[name].to(rng.choice((torch.int64, torch.float64, torch.bool)))
        case 3:
            tensors[name + "x"] = tensors[name].clone()
        case _:
            tensors[name] = tensors[name].flatten()[:1].clone()
    return save_tensors(tensors)


def _sealed(rng: Random, files: Files) -> Files:
    """Other values in a file of :mod:`legs.training.checkpoint`, under a right checksum."""
    name = rng.choice([file for file in sorted(files) if file.endswith((".bin", ".partial"))])
    content = files[name][32:]
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    about = {key: json.loads(text) for key, text in header["__metadata__"].items()}
    about = mutated_json(rng, about) if rng.random() < 0.8 else about
    tensors = load_tensors(content)
    if rng.random() < 0.3 and tensors:
        tensors = load_tensors(other_tensors(rng, content))
    texts = about.items() if isinstance(about, dict) else ()
    content = save_tensors(
        tensors,
        metadata={str(k).encode("utf-8", "replace").decode(): json.dumps(v) for k, v in texts},
    )
    if rng.random() < 0.3:
        content = mutated(rng, content)
    return {**files, name: hashlib.sha256(content).digest() + content}


def _json(name: str, sealed: bool = True) -> Callable[[Random, Files], Files]:
    """Other values in a JSON file, under a right checksum."""

    def make(rng: Random, files: Files) -> Files:
        known = mutated_json(rng, json.loads(files[name]))
        if sealed and isinstance(known, dict):
            known["sha256"] = digest_of({k: v for k, v in known.items() if k != "sha256"})
        return {**files, name: json.dumps(known).encode()}

    return make


def _cached(rng: Random, files: Files) -> Files:
    """Other values in a prepared set, under right checksums."""
    content = files["set"]
    length = 8 + int.from_bytes(content[:8], "little")
    text = json.loads(content[8:length])["__metadata__"]["dataset"][64:]
    if rng.random() < 0.6:
        text = json.dumps(mutated_json(rng, json.loads(text)))
    else:
        content = other_tensors(rng, content)
    tensors = load_tensors(content)
    metadata = {"dataset": prepared_sets._digest(tensors, text) + text}
    return {"set": save_tensors(tensors, metadata)}


def read_model(folder: Path) -> Any:
    """A model, asked for an answer: what loads must also work."""
    found = load(find_model(folder))
    data = made_data(graphs=4)
    if hasattr(found, "predict"):
        if found.feature_names == data.feature_names:
            return found.predict(data)
        return None
    batch = data.whole()
    return found(data.x, batch.edge_index) if found else None


def read_checkpoint(folder: Path) -> Any:
    """The state of a run."""
    return load_state(folder / "checkpoint.bin", SETTINGS)


def read_store(folder: Path) -> Any:
    """Results of a cross-validation."""
    store = Store(folder, SETTINGS)
    partial = load_state(folder / "models" / "gin-0-0.partial", {})
    return store.load("gcn-0-0"), partial


def result_folders() -> list[Files]:
    """What ``legs report`` reads of a run; of a network with learned scales as well."""
    from legs.training import fit

    options = {"hidden_channels": 4, "num_scales": 2, "steps": 4}
    make = partial(fit, made_data(graphs=30), "legs-fcn", made_split(30), QUICK)
    learned = folder_of(lambda folder: make(model_options=options, directory=folder))
    return [
        {name: files[name] for name in ("results.json", *FILES) if name in files}
        for files in (learned, run_folders()[0])
    ]


def read_run(folder: Path) -> Any:
    """A run as a page sees it."""
    return read_train(folder) if kind_of(folder) == "train" else None


def _other_results(rng: Random, files: Files) -> Files:
    """Other values in a run's results or tables, under right checksums."""
    name = rng.choice(sorted(files))
    known, changed = json.loads(files["results.json"]), dict(files)
    if name == "results.json":
        known = mutated_json(rng, known)
    else:
        changed[name] = mutated(rng, files[name], (b"nan,",))
    if isinstance(known, dict):
        if isinstance(known.get("files"), dict):
            known["files"] = {
                file: hashlib.sha256(text).hexdigest()
                for file, text in changed.items()
                if file != "results.json"
            }
        known.pop("sha256", None)
        known["sha256"] = digest_of(known)
    return {**changed, "results.json": json.dumps(known).encode()}


def read_records(folder: Path) -> Any:
    """What a run that goes on finds of itself. Losses are mended in place: the file stays."""
    Records(folder, SETTINGS)


def store_folder() -> Files:
    """A group that is done and one in training."""

    def make(folder: Path) -> None:
        store = Store(folder, SETTINGS)
        row = (0.5, 3, 5, 7, 1.5, "stacked")
        store.save("gcn-0-0", Trained(torch.rand(2, 3), *row))
        path = store.partial("gin-0-0", 1)
        assert path is not None
        save_state(path, State(1, 1, 0.5, [{"epoch": 1}], {"adam": {"a": torch.rand(2)}}), {})

    return folder_of(make)


def checkpoint_folder() -> Files:
    """A run in training."""
    state = State(
        3, 2, 0.25, [{"epoch": 1.0, "train_loss": 0.5}], {"network": {"w": torch.rand(2, 2)}}
    )
    return folder_of(lambda folder: save_state(folder / "checkpoint.bin", state, SETTINGS))


def cells_folder() -> Files:
    """Two finished cells."""

    def make(folder: Path) -> None:
        for name in ("gcn", "gin"):
            write_cell(folder, row(Cell("MUTAG", name)))

    return folder_of(make)


def finite(found: Any) -> None:
    """Nothing: whatever a hostile model answers, it answers."""
    if found is not None and not isinstance(found, torch.Tensor):
        raise Broken(f"an answer that is {type(found).__name__}")


def run_targets() -> list[Target]:
    """All of them."""
    networks, predictors = network_folders(), predictor_folders()
    data = made_data(graphs=4, weighted=True)
    prepared = folder_of(lambda folder: save_dataset(folder / "set", data))

    def read_prepared(folder: Path) -> Any:
        return load_dataset(folder / "set")

    packed = folder_of(lambda folder: pack(made_data(graphs=4), folder / "some.npz"))
    store, checkpoint, finished = store_folder(), checkpoint_folder(), cells_folder()
    results = result_folders()
    records = {
        "settings.json": json.dumps(SETTINGS).encode(),
        "metrics.jsonl": b'{"epoch": 1}\n{"ep',
    }

    other_cell = _json("cells/MUTAG-gcn.json")

    def model(rng: Random, files: Files) -> Files:
        return resealed(rng, files, "model.json", "weights.safetensors")

    return [
        Target("networks", networks, read_model, finite),
        Target("networks, right checksums", networks, read_model, finite, model),
        Target("models", predictors, read_model, finite),
        Target("models, right checksums", predictors, read_model, finite, model),
        Target("run directories", run_folders(), read_model, finite),
        Target("checkpoints", [checkpoint], read_checkpoint),
        Target("checkpoints, right checksums", [checkpoint], read_checkpoint, make=_sealed),
        Target("cross-validations", [store], read_store),
        Target("cross-validations, right checksums", [store], read_store, make=_sealed),
        Target("results of reproduce", [finished], read_cells),
        Target("results of reproduce, right checksums", [finished], read_cells, make=other_cell),
        Target("records of runs", [records], read_records, rewrites=("metrics.jsonl",)),
        Target("results of runs", results, read_run),
        Target("results of runs, right checksums", results, read_run, make=_other_results),
        Target("prepared sets", [prepared], read_prepared, whole),
        Target("prepared sets, right checksums", [prepared], read_prepared, whole, _cached),
        Target("packed sets", [packed], lambda folder: unpack(folder / "some.npz"), whole),
    ]
