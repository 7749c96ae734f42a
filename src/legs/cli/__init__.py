"""The command ``legs``: one file per command; parses, calls, prints."""

import sys
from collections.abc import Sequence

try:
    from legs.cli.main import main
except ModuleNotFoundError as error:
    if error.name not in ("rich", "typer"):
        raise

    def main(args: Sequence[str] | None = None) -> int:
        """Says what the command needs."""
        print("legs: the command needs its extra: pip install 'torch-legs[cli]'", file=sys.stderr)
        return 1


__all__ = ["main"]
