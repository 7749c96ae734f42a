"""The command ``legs``: one file a command; parses, calls, prints."""

from legs.cli.main import main

__all__ = ["main"]
