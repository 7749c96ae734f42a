"""Settings on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from legs.cli.options import parse_grid, parse_settings
from legs.training.cv.protocol import check_grid, setting_name
from legs.training.methods import check_options
from tests.fuzz.mutate import mutated, mutated_json
from tests.fuzz.target import Files, Target

METHODS = ("legs-fcn", "gcn", "legs-rbf", "gs-svm", "gcn-legs-fcn")
SETTINGS = (
    b"dropout=0.2",
    b"aggr=mean",
    b"scales=[1,2,4]",
    b"num-scales=3",
    b"learn_laziness=true",
)
GRIDS: tuple[Any, ...] = ([{"lr": 0.01}, {"lr": 0.001, "steps": 8}], [{"dropout": 0.5}], [{}])
TUNED = (b"lr=0.001,0.003", b"dropout=0,0.5", b"learn-laziness=false,channel")


def _make(rng: Random, _: Files) -> Files:
    match rng.randrange(3):
        case 0:
            some = [
                mutated(rng, rng.choice(SETTINGS), SETTINGS) for _ in range(rng.randrange(1, 3))
            ]
            return {"set": b"\n".join(text.replace(b"\n", b" ") for text in some)}
        case 1:
            text = json.dumps(mutated_json(rng, rng.choice(GRIDS))).encode()
            return {"grid": mutated(rng, text, (b"null",)) if rng.random() < 0.5 else text}
        case _:
            return {"tune": mutated(rng, rng.choice(TUNED), TUNED).replace(b"\n", b" ")}


def _read(folder: Path) -> Any:
    (file,) = folder.iterdir()
    text = file.read_bytes().decode("utf-8", "surrogateescape")
    method = METHODS[len(text) % len(METHODS)]
    if file.name == "set":
        options = parse_settings(text.split("\n"))
        check_options(method, options)
        return options
    grid = parse_grid(text) if file.name == "grid" else parse_grid(None, [text])
    check_grid([method], grid)
    return [setting_name(setting) for setting in grid]


def settings_targets() -> list[Target]:
    """All of them."""
    return [
        Target(
            "settings on the command line", [{"set": SETTINGS[0]}], _read, make=_make, plain=True
        )
    ]
