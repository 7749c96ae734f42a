"""The application behind ``legs``, and how its errors reach people."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, TextIO

import typer

from legs.cli.bench import bench
from legs.cli.cv import cv
from legs.cli.datasets import datasets
from legs.cli.demo import demo
from legs.cli.embed import embed
from legs.cli.flags import as_flags, rename_options
from legs.cli.options import UsageError
from legs.cli.predict import predict
from legs.cli.report import report
from legs.cli.reproduce import reproduce
from legs.cli.train import train
from legs.io import printable

DEBUG = "--debug"


app = typer.Typer(
    name="legs",
    help="Learnable geometric scattering for graphs.",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for _command in (demo, datasets, train, predict, embed, cv, reproduce, report, bench):
    app.command()(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"torch-legs {version('torch-legs')}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    _debug: Annotated[
        bool, typer.Option(DEBUG, help="Show the traceback of an error; valid with any command.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run ``legs`` and return its exit status.

    An error is one line on the standard error and exit status 1, or 2 for a command line that
    cannot be used; with ``--debug`` anywhere in ``args`` it is raised, so its traceback shows.

    Args:
        args: The words after ``legs``; those of the command line by default.

    Example:
        >>> main(["--version"])
        torch-legs ...
        0
    """
    words = list(sys.argv[1:] if args is None else args)
    # Click ties an option to one command, and people add --debug at the end of the line.
    end = words.index("--") if "--" in words else len(words)
    debug = DEBUG in words[:end]
    words = [word for word in words[:end] if word != DEBUG] + words[end:]
    words, notes = rename_options(words)
    for note in notes:
        typer.echo(f"legs: warning: {note}", err=True)
    command = typer.main.get_command(app)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            # Not its main(), which takes every EOFError for a closed prompt.
            with command.make_context("legs", list(words)) as context:
                command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except (typer.Abort, KeyboardInterrupt):
        typer.echo("legs: interrupted", err=True)
        return 130
    except BrokenPipeError:  # legs … | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            raise
        typer.echo(f"legs: {printable(_describe(error, words))}", err=True)
        return 2 if isinstance(error, UsageError) or _is_clicks(error) else 1
    return 0


def _is_clicks(error: Exception) -> bool:
    """Whether Typer refused the command line; where its errors are defined differs by version."""
    return hasattr(error, "format_message")


def _describe(error: Exception, words: Sequence[str]) -> str:
    """One line that says what went wrong, in the words of the command line."""
    if _is_clicks(error):
        command = getattr(getattr(error, "ctx", None), "command_path", "legs")
        return f"{_one_line(error.format_message())} (see {command} --help)"  # type: ignore[attr-defined]
    if isinstance(error, ModuleNotFoundError) and error.name in ("pandas", "pyarrow"):
        return f"the command needs {error.name}: pip install 'torch-legs[cli]'"
    text = _one_line(str(error))
    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    if command := next((commands[word] for word in words if word in commands), None):
        text = as_flags(text, command.params)
    # These carry a sentence written for people; of others the class name is half the message.
    if isinstance(error, ValueError | OSError | ImportError) and text:
        return text
    return f"{type(error).__name__}{': ' if text else ''}{text} ({DEBUG} shows where)"


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings about files and data in one line; others as Python shows them."""
    from legs.data.errors import DataWarning
    from legs.io import FileWarning

    text = warnings.formatwarning(message, category, filename, lineno, line)
    if issubclass(category, (FileWarning, DataWarning)):
        text = f"legs: warning: {_one_line(str(message))}\n"
    typer.echo(text, nl=False, err=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())
