"""A process that runs ``legs``: checkpoints are frequent, so that some of them are torn as well."""

from __future__ import annotations

import os
import sys


def run(words: list[str], environment: dict[str, str] | None = None) -> int:
    """The command, with what depends on time made certain.

    Args:
        words: after ``legs``.
        environment: variables to set.
    """
    os.environ.update(environment or {})
    from legs.cli import main
    from legs.training import loop
    from legs.training.cv import cross_validation as cv_work
    from legs.training.stacked import trainer as stack

    loop.CHECKPOINT_SECONDS = stack.CHECKPOINT_SECONDS = 0.05
    cv_work.default_strategy = lambda *given, **more: "stacked"
    sys.argv = ["legs", *words]
    return main(words)


def quiet(words: list[str], environment: dict[str, str], log: str) -> None:
    """:func:`run` in a process of its own, which says what it has to say in a file."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os._exit(run(words, environment))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
