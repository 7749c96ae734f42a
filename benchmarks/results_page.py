"""What benchmarks with one file of results and one page about it share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Results = dict[str, Any]
RESULTS = Path(__file__).parents[1] / "docs" / "results"


def origin(results: Results, command: str) -> str:
    """The last line of a page: machine, date, versions, seed, and how to get it again."""
    names = ("device", "machine")
    parts = [", ".join(results[name] for name in names), results["date"][:10]]
    parts.append(f"commit {results['commit']}")
    parts.append(", ".join(f"{name} {number}" for name, number in results["versions"].items()))
    parts += [f"seed {results['seed']}"] if "seed" in results else []
    return f"{'; '.join(parts)}. Again with `python -m {command}`.\n"


class Study(NamedTuple):
    """Some measurements, whose results are in the folder of their name."""

    datasets: Sequence[str]  # by default
    measure: Callable[[argparse.Namespace, Path], Results]  # of the options; the file of results
    page: Callable[[Results], str]


def run(words: str | None, studies: dict[str, Study]) -> None:
    """Measures, and writes results and page; with ``--page``, the page alone."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("study", nargs="?", choices=studies, default=next(iter(studies)))
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--output", type=Path, help="folder; default: docs/results/STUDY")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    study, folder = studies[options.study], options.output or RESULTS / options.study
    options.datasets = options.datasets or study.datasets
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    if not options.page:
        file.write_text(json.dumps(study.measure(options, file), indent=1) + "\n")
    (folder / "results.md").write_text(study.page(json.loads(file.read_text())))
