"""Which machines do the work: the same two options for several commands."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from legs.engine import Engine


class EngineName(StrEnum):
    """Where work is done."""

    local = "local"
    ray = "ray"


EngineOption = Annotated[
    EngineName, typer.Option("--engine", help="Where to compute: this machine, or a Ray cluster.")
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        show_default="$RAY_ADDRESS, or one on this machine",
        help="Of the Ray cluster.",
    ),
]


def check_address(engine: EngineName, address: str | None) -> None:
    """An error where an address is given and nobody would go there."""
    if engine is EngineName.local and address is not None:
        raise ValueError("--address is that of a Ray cluster; add --engine ray")


def spread_over(
    engine: EngineName, address: str | None
) -> AbstractContextManager[Engine | None, bool | None]:
    """The engine of a cluster; ``None`` for this machine, where models are trained as ever."""
    if engine is EngineName.local:
        return nullcontext()
    from legs.engine import open_engine

    return open_engine(engine.value, address)
