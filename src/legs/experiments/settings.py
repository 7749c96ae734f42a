"""What is tuned: the learning rate of every network, one for all data sets of a kind.

``legs reproduce tuning`` finds it on validation graphs; its choices are kept in ``settings.json``.
Where there is none, every cell chooses for itself.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

BIOCHEMICAL = ("DD", "ENZYMES", "MUTAG", "NCI1", "NCI109", "PROTEINS", "PTC_MR")
SOCIAL = (
    "COLLAB",
    "IMDB-BINARY",
    "IMDB-MULTI",
    "REDDIT-BINARY",
    "REDDIT-MULTI-12K",
    "REDDIT-MULTI-5K",
)
SETS = BIOCHEMICAL + SOCIAL
KINDS = {"biochemical": BIOCHEMICAL, "social": SOCIAL}
# The learning rates that every network chooses from, on validation loss.
RATES = (1e-3, 1e-2)
FILE = "settings.json"

Settings = dict[str, dict[str, float]]  # learning rates by kind and method


def kind_of(data: str) -> str:
    """The kind of a data set.

    >>> kind_of("MUTAG")
    'biochemical'
    """
    return next(kind for kind, sets in KINDS.items() if data in sets)


@cache
def settings() -> Settings:
    """The rates that were chosen."""
    file = files("legs.experiments").joinpath(FILE)
    found: Settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def rates_for(data: str, method: str) -> tuple[float, ...]:
    """The rate that was chosen for a method on sets of this kind; all of them if none was."""
    rate = settings().get(kind_of(data), {}).get(method)
    return RATES if rate is None else (rate,)


def tuned_words() -> str:
    """What was tuned and how, for a page."""
    rates = " or ".join(f"{rate:g}" for rate in RATES)
    if settings():
        return (
            f"Tuned: the learning rate, {rates}, one for every network and kind of data set "
            "(biochemical, social), chosen by validation loss on the smaller sets: "
            "`legs reproduce tuning`. A network without such a choice chooses for each test set by "
            "the mean validation loss of its models."
        )
    return (
        f"Tuned: the learning rate, {rates}, for every network on every data set, chosen for each "
        "test set by the mean validation loss of its models."
    )
