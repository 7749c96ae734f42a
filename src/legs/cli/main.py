"""The application behind ``legs``, and how its errors reach people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from legs.cli.bench import bench
from legs.cli.cv import cv
from legs.cli.datasets import datasets
from legs.cli.demo import demo
from legs.cli.embed import embed
from legs.cli.predict import predict
from legs.cli.report import report
from legs.cli.reproduce import reproduce
from legs.cli.train import train

DEBUG = "--debug"

app = typer.Typer(
    name="legs",
    help="Learnable geometric scattering for graphs.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(datasets)
app.command()(train)
app.command()(predict)
app.command()(embed)
app.command()(cv)
app.command()(reproduce)
app.command()(report)
app.command()(bench)


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
        bool,
        typer.Option(DEBUG, help="Show the traceback of an error; works anywhere on the line."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _take_debug(args: Sequence[str]) -> tuple[list[str], bool]:
    """Take ``--debug`` out of ``args``, wherever it stands before a bare ``--``."""
    # Click ties an option to one command, and people add --debug at the end of the line.
    end = args.index("--") if "--" in args else len(args)
    rest = [arg for arg in args[:end] if arg != DEBUG] + list(args[end:])
    return rest, len(rest) < len(args)


def _describe(error: Exception) -> str:
    """One line that says what went wrong."""
    # Usage errors of typer have format_message; where their class lives differs between versions.
    show = getattr(error, "format_message", None)
    if show is not None:
        command = getattr(getattr(error, "ctx", None), "command_path", "legs")
        return f"{_one_line(show())} (see {command} --help)"
    text = _one_line(str(error))
    # These carry a sentence written for people; of others the class name is half the message.
    if isinstance(error, ValueError | OSError | ImportError) and text:
        return text
    return f"{type(error).__name__}{': ' if text else ''}{text} ({DEBUG} shows where)"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main(args: Sequence[str] | None = None) -> int:
    """Run ``legs`` and return its exit code.

    An error is one line on the standard error and exit code 1; with ``--debug`` anywhere in
    ``args`` it is raised, so its traceback shows.

    Args:
        args: The words after ``legs``; those of the command line by default.

    Example:
        >>> main(["--version"])
        torch-legs ...
        0
    """
    rest, debug = _take_debug(sys.argv[1:] if args is None else list(args))
    try:
        code = typer.main.get_command(app).main(rest, prog_name="legs", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        typer.echo("legs: interrupted", err=True)
        return 130
    except Exception as error:
        if debug:
            raise
        typer.echo(f"legs: {_describe(error)}", err=True)
        return 1
    # Typer answers with the code of a typer.Exit, else with what the command returned: None.
    return code if isinstance(code, int) else 0
