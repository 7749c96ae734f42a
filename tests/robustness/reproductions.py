"""``python -m tests.robustness.reproductions``: commands that once harmed, hung or misled."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from legs.io import digest_of, file_digests, with_digest
from tests.cli.molecules import QUICK, rows, write
from tests.fuzz.seeds import folder_of, sdf
from tests.fuzz.target import Files, listing
from tests.robustness.origin import parser_of, write_counts
from tests.robustness.test_bounds import lying_zip, ring, shared_string, wide_csv
from tests.training.test_finite import BAD, write_folder

MEMORY = 6 << 30  # bytes of address space
SECONDS = 600.0
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


class Step(NamedTuple):
    """A command, and what has to come of it.

    Args:
        name: for the list.
        words: after ``legs``; or a function, called with the folder in the process instead.
        text: pattern of what it prints.
        done: whether it has to succeed; otherwise it has to be refused.
        writes: patterns of files that it may write; all others stay as they are.
        check: says what is wrong with the result; empty if nothing is.
        environment: variables to set.
        killed: whether the process ends itself by a signal.
    """

    name: str
    words: list[str] | Callable[[Path], None]
    text: str = ""
    done: bool = False
    writes: tuple[str, ...] = ()
    check: Callable[[Path], str] | None = None
    environment: dict[str, str] = {}  # noqa: RUF012
    killed: bool = False


Point = Callable[[Path, Files], Iterator[Step]]


def outputs_of_others(place: Path, _: Files) -> Iterator[Step]:
    """Outputs never delete or overwrite files of others."""
    put(place, {"p/settings.json": b"{}", "p/metrics.jsonl": b"x"})
    yield Step("folder of others", ["train", "missing.csv", "-o", "p"], "missing.csv|holds files")
    write(place / "data.csv", ("smiles", "kind"))
    words = ["train", "data.csv", *QUICK, "-o"]
    yield Step("files of others", [*words, "p"], "p holds files of others")
    put(place, {"notes.txt": b"mine"})
    yield Step("current folder", [*words, "."], "would replace data.csv")
    found = rows()
    found[3]["smiles"] = "C1CC"
    bad = str(write(place / "bad.csv", ("smiles", "kind"), found))
    skip = ["--on-error", "skip"]
    yield Step("first run", ["train", bad, *QUICK, *skip, "-o", "r"], done=True, writes=("r/*",))
    found[5]["smiles"] = "C1CC"
    write(place / "bad.csv", ("smiles", "kind"), found)
    refused = ["train", bad, *QUICK, *skip, "-o", "r"]
    yield Step("list of bad rows of an earlier run", refused, "other settings")
    put(place, {"r/.paper.tex.abcdefgh.tmp": b"mine"})
    report = ["report", "r"]
    own = ("r/report.html", "r/explained.json")
    yield Step("temporary files of others", report, done=True, writes=own)


def outputs_over_inputs(place: Path, run: Files) -> Iterator[Step]:
    """Outputs never overwrite inputs."""
    found = [*rows(8), {"smiles": "C1CC", "kind": "alkane"}]
    write(place / "lib.bad_rows.csv", ("smiles", "kind"), found)
    words = ["embed", "legs-fixed", "lib.bad_rows.csv", "-o", "lib.csv", "--on-error", "skip"]
    yield Step("embed", words, "lib.bad_rows.csv would replace")
    put(place, {f"R/{name}": content for name, content in run.items()})
    write(place / "R" / "bad_rows.csv", ("smiles", "kind"))
    words = ["train", "R/bad_rows.csv", "-o", "R", "--on-error", "skip", *QUICK]
    yield Step("train", words, "would replace")


def bombs(place: Path, run: Files) -> Iterator[Step]:
    """Small files that unpack to huge ones."""
    for name, method in (("bz2", 12), ("LZMA", 14), ("deflate", 8)):
        (place / f"{name}.zip").write_bytes(lying_zip(method))
        words = ["embed", "legs-fixed", f"{name}.zip", "-o", "out.csv"]
        yield Step(f"TU zip, {name}, wrong size", words, rf"{name}\.zip")
        put(place, {f"run/{file}": content for file, content in run.items()})
        (place / "run" / "shown.npz").write_bytes(lying_zip(method))
        reseal(place / "run")
        yield Step(f"shown.npz, {name}, wrong size", ["report", "run"], r"shown\.npz is damaged")
    shared_string(place / "t.parquet", 20_000)
    words = ["embed", "legs-fixed", "t.parquet", "-o", "out.csv"]
    yield Step("Parquet, 20,000 rows of one string of 1 MB", words, r"t\.parquet has .* no honest")


def rings(place: Path, _: Files) -> Iterator[Step]:
    """Molecules with huge rings."""
    (place / "ring.smi").write_text(f"CCO\n{ring(20_000)}\n{ring(19_990)}\n")
    words = ["embed", "legs-fixed", "ring.smi", "-o", "out.csv"]
    yield Step("ring of 20,000 atoms", words, r"ring\.smi line 2")
    check = lines("out.csv", 2)
    own = ("out.csv", "out.bad_rows.csv")
    yield Step("skipped", [*words, "--on-error", "skip"], done=True, writes=own, check=check)


def overflow(place: Path, run: Files) -> Iterator[Step]:
    """Overflow and NaN in graphs and weights."""
    write_folder(place / "good", {})
    write_folder(place / "bad", BAD)
    words = ["train", "good", "-o", "r", "--epochs", "2", "--features", "attributes"]
    yield Step("model of good graphs", words, done=True, writes=("r/*",))
    for name, number, what in (("weight", 4, "weight"), ("size", 7, "size")):
        shutil.rmtree(place / "bad")
        write_folder(place / "bad", {number: BAD[number]})
        words = ["predict", "r", "bad", "-o", "out.csv"]
        value = BAD[number][name]
        yield Step(f"{what}s of {value:g}", words, f"g{number:02}.*{what}")
        words = ["train", "bad", "-o", "no", "--epochs", "2", "--features", "attributes"]
        pattern = f"g{number:02}.*{what}"
        yield Step(f"{what}s of {value:g} in training", words, pattern, writes=("no/*",))
    put(place, {name: content for name, content in run.items() if name.startswith("model/")})
    spoil_weights(place / "model")
    write(place / "new.csv", ("smiles",))
    words = ["predict", "model", "new.csv", "-o", "out.csv"]
    yield Step("weights that are NaN, right checksums", words, "not finite")


def numbers(place: Path, _: Files) -> Iterator[Step]:
    """Text that looks like a number."""

    def table(values: Iterable[str]) -> None:
        found = [{"smiles": row["smiles"], "y": value} for row, value in zip(rows(), values)]  # noqa: B905
        write(place / "t.csv", ("smiles", "y"), found)

    words = ["train", "t.csv", "--target", "y", "-o", "r", *QUICK]
    plain = [f"{k / 4:.2f}" for k in range(40)]
    for odd in ("1_0", ">7.5"):
        table([*plain[:5], odd, *plain[6:]])
        yield Step(odd, words, rf"t\.csv line 7.*{re.escape(odd)}", writes=("r/*",))
    table(value.replace(".", ",") for value in plain)
    check = mean_of("r", "y", float(np.mean([float(value) for value in plain])))
    yield Step("decimal commas", words, done=True, writes=("r/*",), check=check)
    yield Step("--lr 1_0", [*words, "--lr", "1_0"], "1_0")


def damage(place: Path, run: Files) -> Iterator[Step]:
    """Damaged files and models of other runs."""
    write(place / "data.csv", ("name", "smiles"))
    words = ["embed", "legs-fixed", "data.csv", "-o", "parts"]
    yield Step("parts", words, done=True, writes=("parts/*",))
    part = place / "parts" / "part-000000.parquet"
    truth = pd.read_parquet(part)
    flip(part)

    def same(_: Path) -> str:
        return "" if pd.read_parquet(part).equals(truth) else "other numbers"

    yield Step("part, resumed", words, "damaged", done=True, writes=("parts/*",), check=same)
    for name in ("weights.safetensors", "model.json"):
        put(place, {f"run/{file}": content for file, content in run.items()})
        flip(place / "run" / "model" / name)
        yield Step(f"{name}, report", ["report", "run"], rf"{name} is damaged")
        yield Step(f"{name}, predict", ["predict", "run", "data.csv", "-o", "p.csv"], "is damaged")
    put(place, {f"run/{file}": content for file, content in run.items()})
    flip(place / "run" / "explained.json")
    own = ("run/report.html", "run/explained.json")
    yield Step("explained.json", ["report", "run"], "made again", done=True, writes=own)
    (place / "run" / "report.html").unlink()
    write(place / "kinds.csv", ("smiles", "kind"))
    words = ["train", "kinds.csv", "-o", "other", *QUICK, "--seed", "7"]
    yield Step("another run", words, done=True, writes=("other/*",))
    shutil.rmtree(place / "run" / "model")
    shutil.copytree(place / "other" / "model", place / "run" / "model")
    yield Step("model of another run", ["report", "run"], "is not the model of this run")


def messages(place: Path, run: Files) -> Iterator[Step]:
    """Messages about damaged files and wrong options."""
    put(place, {f"run/{file}": content for file, content in run.items()})
    (place / "run" / "explained.json").unlink(missing_ok=True)
    shown = place / "run" / "shown.npz"
    content = shown.read_bytes()
    with np.load(shown) as file:
        arrays = {name: array for name, array in file.items() if name != "best"}
    for name in ("empty", "cut", "without best"):
        if name == "without best":
            np.savez_compressed(shown, **arrays)
        else:
            shown.write_bytes(content[: len(content) // 2 if name == "cut" else 0])
        reseal(place / "run")
        yield Step(f"shown.npz, {name}", ["report", "run"], r"shown\.npz is damaged")
    put(place, {name: text for name, text in run.items() if name.startswith("model/")})
    known = json.loads((place / "model" / "model.json").read_text())
    digests = known.pop("sha256")
    known["task"]["names"] = [f"class {k}" for k in range(1000)]
    known["task"]["class_weights"] = None
    digests["model.json"] = digest_of(known)
    (place / "model" / "model.json").write_text(json.dumps({**known, "sha256": digests}))
    write(place / "new.csv", ("smiles",))
    words = ["predict", "model", "new.csv", "-o", "out.csv"]
    yield Step("1,000 class names", words, "1,000 names")
    home = {"LEGS_DATA": "~nosuchuser/x"}
    words = ["embed", "legs-fixed", "MUTAG", "-o", "out.csv"]
    yield Step("LEGS_DATA=~nosuchuser/x", words, "LEGS_DATA", environment=home)
    (place / "t.sdf.gz").write_bytes(gzip.compress(sdf(), mtime=0)[:-20])
    words = ["embed", "legs-fixed", "t.sdf.gz", "-o", "out.csv"]
    yield Step(".sdf.gz, cut", words, r"t\.sdf\.gz cannot be read")
    write(place / "data.csv", ("smiles", "kind"))
    words = ["train", "data.csv", "-o", "r", "--set", "dropout=abc"]
    yield Step("--set dropout=abc", words, "dropout.*abc")


def edges(place: Path, run: Files) -> Iterator[Step]:
    """Kills, wide tables, local addresses, formulas in text."""
    write(place / "new.csv", ("name", "smiles"))
    for renames in range(3):
        put(place, {name: text for name, text in run.items() if name.startswith("model/")})
        call = (kill_at_0, kill_at_1, kill_at_2)[renames]
        own = ("model/*",)
        yield Step(f"killed before rename {renames + 1}", call, writes=own, killed=True)
        words = ["predict", "model", "new.csv", "-o", "out.csv"]
        check = lines("out.csv", 41)
        yield Step("model after the kill", words, done=True, writes=("out.csv",), check=check)
        shutil.rmtree(place / "model")
        (place / "out.csv").unlink()
    (place / "wide.csv").write_text(wide_csv(100_000))
    words = ["embed", "legs-fixed", "wide.csv", "-o", "wide-out.csv"]
    check = lines("wide-out.csv", 3)
    yield Step("100,000 columns", words, done=True, writes=("wide-out.csv",), check=check)
    node = {"id": 0, "v": [1.0] * 200_000}
    graph = json.dumps({"nodes": [node], "links": []}).encode()
    put(place, {"graphs/one.json": graph, "graphs/two.json": graph})
    words = ["embed", "legs-fixed", "graphs", "-o", "out.csv"]
    yield Step("node with 200,000 numbers", words, "more than 10,000 attributes; not read")
    yield Step('download("file://…")', download_file, "http")
    evil = [{"name": "=1+1", "smiles": "CO"}, {"name": "a\x1b[31m\u202eb", "smiles": "nonsense"}]
    write(place / "evil\x1b[31m.csv", ("name", "smiles"), evil)
    put(place, {f"run/{name}": text for name, text in run.items()})
    words = ["predict", "run", "evil\x1b[31m.csv", "-o", "cells.csv", "--id-column", "name"]
    own = ("cells.csv", "cells.bad_rows.csv")

    def formulas(folder: Path) -> str:
        text = (folder / "cells.csv").read_text()
        return "" if "\n'=1+1," in text else f"a formula: {text[:200]}"

    yield Step(
        "formulas and control characters",
        [*words, "--on-error", "skip"],
        done=True,
        writes=own,
        check=formulas,
    )


POINTS: tuple[Point, ...] = (
    outputs_of_others,
    outputs_over_inputs,
    bombs,
    rings,
    overflow,
    numbers,
    damage,
    messages,
    edges,
)


def put(place: Path, files: Files) -> None:
    """Writes files into a folder."""
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)


def flip(file: Path) -> None:
    """Changes one bit."""
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)


def reseal(run: Path) -> None:
    """Makes the checksums in a run's results those of its files."""
    known = json.loads((run / "results.json").read_text())
    known.pop("sha256")
    known["files"] = file_digests(run, known["files"])
    (run / "results.json").write_text(json.dumps(with_digest(known)))


def spoil_weights(model: Path) -> None:
    """Weights that are not a number, under right checksums."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(model / "weights.safetensors")
    next(value for name, value in tensors.items() if name.endswith("weight")).view(-1)[0] = np.nan
    save_file(tensors, model / "weights.safetensors")
    known = json.loads((model / "model.json").read_text())
    known["sha256"].update(file_digests(model, ["weights.safetensors"]))
    (model / "model.json").write_text(json.dumps(known))


def lines(name: str, count: int) -> Callable[[Path], str]:
    """Whether a file has so many lines."""

    def check(folder: Path) -> str:
        found = len((folder / name).read_text().splitlines())
        return "" if found == count else f"{found} lines in {name}, not {count}"

    return check


def mean_of(run: str, target: str, mean: float) -> Callable[[Path], str]:
    """Whether a model of numbers has about the mean of its table, of which it has seen a part."""

    def check(folder: Path) -> str:
        task = json.loads((folder / run / "model" / "model.json").read_text())["task"]
        found = task["mean"][task["names"].index(target)]
        return "" if abs(found - mean) < 2 else f"a mean of {found}, not of about {mean}"

    return check


def _kill_at(place: Path, renames: int) -> None:
    """Saves a model over itself, and ends before a rename."""
    from legs.training.predictor import load_predictor

    predictor, replace, done = load_predictor(place / "model"), os.replace, 0

    def dies(*given: Any) -> None:
        nonlocal done
        if done == renames:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        replace(*given)

    os.replace = dies  # type: ignore[assignment]
    predictor.save(place / "model")


def kill_at_0(place: Path) -> None:
    """Before the first rename."""
    _kill_at(place, 0)


def kill_at_1(place: Path) -> None:
    """Before the second."""
    _kill_at(place, 1)


def kill_at_2(place: Path) -> None:
    """Before the third."""
    _kill_at(place, 2)


def download_file(place: Path) -> None:
    """Asks for a file of this machine."""
    from legs.data.catalog.fetch import download

    download(f"file://{place}/new.csv", place / "copy.csv")


def child(step: Step, place: str, log: str) -> None:
    """A command in a process of its own, which prints into a file."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ.update({"XDG_CACHE_HOME": f"{place}.cache", **step.environment})
    os.chdir(place)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from legs.cli import main

    try:
        if callable(step.words):
            step.words(Path(place))
            code = 0
        else:
            sys.argv = ["legs", *step.words]
            code = main(step.words)
    except ValueError as error:
        if isinstance(step.words, list):
            raise
        print(f"legs: {error}", flush=True)
        code = 1
    sys.stdout.flush()
    os._exit(code)


def run_step(step: Step, place: Path, context: Any) -> list[str]:
    """Runs a command. Returns what is wrong with its outcome."""
    before = _contents(place, step.writes)
    log = place.with_suffix(".log")
    process = context.Process(target=child, args=(step._replace(check=None), str(place), str(log)))
    process.start()
    process.join(SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
        return [f"no end after {SECONDS:.0f} s"]
    text = log.read_text(errors="surrogateescape") if log.exists() else ""
    code, faults = process.exitcode, []
    expected = {-signal.SIGKILL} if step.killed else {0} if step.done else {1, 2}
    if code not in expected:
        faults.append(f"status {code}")
    if "Traceback (most recent call last)" in text:
        faults.append("a traceback")
    if code in (1, 2) and "legs: " not in text:
        faults.append("no message")
    if CONTROL.search(text.replace("\r", "")):
        faults.append("control characters")
    if not re.search(step.text, " ".join(text.split())):
        faults.append(f"no {step.text!r}")
    after = _contents(place, step.writes)
    faults += [f"{name} is gone" for name in before if name not in after]
    faults += [f"{name} is new" for name in after if name not in before]
    faults += [f"{name} has changed" for name in before if after.get(name, b"") != before[name]]
    if not faults and step.check is not None and (fault := step.check(place)):
        faults.append(fault)
    return [f"{fault}: {' '.join(text.split())[-300:]}" for fault in faults]


def _contents(folder: Path, writes: tuple[str, ...]) -> Files:
    """Files of others; locks are nobody's."""
    return {
        name: (folder / name).read_bytes()
        for name in listing(folder)
        if not any(fnmatch(name, pattern) for pattern in writes) and not name.endswith(".lock")
    }


@cache
def trained() -> Files:
    """A small run of ``legs train`` with explanations."""
    from legs.cli import main
    from legs.explain import explain_folder

    def make(folder: Path) -> None:
        write(folder / "data.csv", ("smiles", "kind"))
        words = ["train", str(folder / "data.csv"), "-o", str(folder / "run"), *QUICK]
        if main(words) != 0:
            raise AssertionError("the run that all others begin with has failed")
        explain_folder(folder / "run")

    files = folder_of(make)
    return {name[4:]: content for name, content in files.items() if name.startswith("run/")}


def reproduce(
    points: Iterable[Point], place: Path, report: Callable[[str], None] = print
) -> dict[str, dict[str, Any]]:
    """Runs all commands of some points. Returns counts by point, with what went wrong."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["legs.training", "legs.cli", "tests.training.test_finite"])
    run, counts = trained(), {}
    for point in points:
        title = " ".join((point.__doc__ or "").split()).rstrip(".")
        row: dict[str, Any] = {"commands": 0, "wrong": 0, "faults": []}
        folder = place / point.__name__
        folder.mkdir()
        for step in point(folder, run):
            found = run_step(step, folder, context)
            row["commands"] += 1
            row["wrong"] += bool(found)
            row["faults"] += [f"{step.name}: {fault}" for fault in found]
            report(f"{point.__name__:20} {step.name:45} {'; '.join(found) or 'as it should be'}")
        counts[title] = row
    return counts


def main() -> int:
    """Runs and writes; the exit code is 1 if anything went wrong."""
    parser = parser_of("tests.robustness.reproductions", __doc__, "reproductions.json")
    given = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        counts = reproduce(POINTS, Path(name), report=lambda line: print(line, flush=True))
    known = {
        "seconds": round(time.monotonic() - start, 1),
        "memory": MEMORY,
        "commands": sum(row["commands"] for row in counts.values()),
        "wrong": sum(row["wrong"] for row in counts.values()),
        "points": counts,
    }
    write_counts(given, known)
    return 1 if known["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
