"""What benchmarks with one file of results and one page about it share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Results = dict[str, Any]


def origin(results: Results, command: str) -> str:
    """The last line of a page: machine, date, versions, seed, and how to get it again."""
    names = ("device", "machine")
    parts = [", ".join(results[name] for name in names), results["date"][:10]]
    parts.append(f"commit {results['commit']}")
    parts.append(", ".join(f"{name} {number}" for name, number in results["versions"].items()))
    parts += [f"seed {results['seed']}"] if "seed" in results else []
    return f"{'; '.join(parts)}. Again with `python -m {command}`.\n"


def run(
    words: str | None,
    folder: Path,
    datasets: Sequence[str],
    measure: Callable[[argparse.Namespace, Path], Results],
    page: Callable[[Results], str],
) -> None:
    """Measures, and writes results and page; with ``page`` on the command line, the page alone.

    ``measure`` takes the command line and the file that results will be in.
    """
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("what", nargs="?", choices=("run", "page"), default="run")
    parser.add_argument("--output", type=Path, default=folder)
    parser.add_argument("--datasets", nargs="+", default=list(datasets))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / "results.json"
    if options.what == "run":
        file.write_text(json.dumps(measure(options, file), indent=1) + "\n")
    (options.output / "results.md").write_text(page(json.loads(file.read_text())))
