"""``python tests/lowest.py``: the lower bounds of ``pyproject.toml`` as constraints for pip.

``make test-lowest`` installs with them. Words after the name replace bounds, such as
``torch==2.13.0`` where no wheel of the lowest version is at hand.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,.-]+\])?\s*>=\s*(?P<lowest>[\w.]+)")
# Tools are no part of what is supported: any version of them may test the lowest.
TOOLS = {"dev", "docs"}


def lower_bounds(text: str) -> dict[str, str]:
    """The lowest supported version of every package, by its name.

    Args:
        text: of ``pyproject.toml``.

    >>> lower_bounds('project.dependencies = ["numpy>=1.26", "ray[data]>=2.40,<3"]')
    {'numpy': '1.26', 'ray': '2.40'}
    """
    project = tomllib.loads(text)["project"]
    extras = project.get("optional-dependencies", {})
    wanted = [*project["dependencies"]]
    wanted += [line for name, lines in extras.items() if name not in TOOLS for line in lines]
    found = (BOUND.match(line) for line in wanted)
    return {match["name"]: match["lowest"] for match in found if match}


def constraints(text: str, others: list[str]) -> list[str]:
    """A line a package: its lowest version, or what ``others`` say.

    >>> constraints('project.dependencies = ["numpy>=1.26", "torch>=2.9"]', ["torch==2.13.0"])
    ['numpy==1.26', 'torch==2.13.0']
    """
    chosen = {name: f"{name}=={lowest}" for name, lowest in lower_bounds(text).items()}
    for other in others:
        name = re.split(r"[=<>!~]", other)[0]
        if name not in chosen:
            raise SystemExit(f"{name} is none of the packages: {', '.join(chosen)}")
        chosen[name] = other
    return [*chosen.values()]


if __name__ == "__main__":
    print("\n".join(constraints(PROJECT.read_text(encoding="utf-8"), sys.argv[1:])))
