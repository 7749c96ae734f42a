"""The application behind ``legs``, and how its errors reach people."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from legs.cli.bench import bench
from legs.cli.choices import rename_options
from legs.cli.cv import cv
from legs.cli.datasets import datasets
from legs.cli.demo import demo
from legs.cli.embed import embed
from legs.cli.predict import predict
from legs.cli.report import report
from legs.cli.reproduce import reproduce
from legs.cli.train import train
from legs.cli.wording import as_flags
from legs.io import printable

DEBUG = "--debug"


class _EndOfFileError(Exception):
    """Carries an ``EOFError`` past Typer."""


class _Group(TyperGroup):
    """Typer takes every ``EOFError`` for a closed prompt, and ends silently at Ctrl-C."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise _EndOfFileError from error
        except KeyboardInterrupt as error:
            raise typer.Abort from error


app = typer.Typer(
    name="legs",
    cls=_Group,
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


def _is_usage(error: Exception) -> bool:
    """Whether Typer refused the command line; where its errors are defined differs by version."""
    return hasattr(error, "format_message")


def _describe(error: Exception, args: Sequence[str]) -> str:
    """One line that says what went wrong."""
    if _is_usage(error):
        command = getattr(getattr(error, "ctx", None), "command_path", "legs")
        return f"{_one_line(error.format_message())} (see {command} --help)"  # type: ignore[attr-defined]
    text = _in_flags(_one_line(str(error)), args)
    if isinstance(error, ModuleNotFoundError) and error.name in ("pandas", "pyarrow"):
        return f"the command needs {error.name}: pip install 'torch-legs[cli]'"
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

    if issubclass(category, (FileWarning, DataWarning)):
        typer.echo(f"legs: warning: {_one_line(str(message))}", err=True)
    else:
        typer.echo(
            warnings.formatwarning(message, category, filename, lineno, line), nl=False, err=True
        )


def _in_flags(text: str, args: Sequence[str]) -> str:
    """The message in the words of the command that ``args`` name."""
    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    command = next((commands[arg] for arg in args if arg in commands), None)
    return text if command is None else as_flags(text, command.params)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main(args: Sequence[str] | None = None) -> int:
    """Run ``legs`` and return its exit code.

    An error is one line on the standard error and exit code 1, or 2 for a command line that cannot
    be parsed; with ``--debug`` anywhere in ``args`` it is raised, so its traceback shows.

    Args:
        args: The words after ``legs``; those of the command line by default.

    Example:
        >>> main(["--version"])
        torch-legs ...
        0
    """
    rest, debug = _take_debug(sys.argv[1:] if args is None else list(args))
    rest, notes = rename_options(rest)
    for note in notes:
        typer.echo(f"legs: warning: {note}", err=True)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = typer.main.get_command(app).main(rest, prog_name="legs", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        typer.echo("legs: interrupted", err=True)
        return 130
    except Exception as caught:
        end = caught.__cause__ if isinstance(caught, _EndOfFileError) else None
        error = end if isinstance(end, EOFError) else caught
        if debug:
            raise error from error.__cause__
        typer.echo(f"legs: {printable(_describe(error, rest))}", err=True)
        return 2 if _is_usage(error) else 1
    # Typer answers with the code of a typer.Exit, else with what the command returned: None.
    return code if isinstance(code, int) else 0
