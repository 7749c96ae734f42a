"""The application behind ``legs``, and how its errors reach people."""

import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from legs import __version__
from legs.cli.bench import bench
from legs.cli.cv import cv
from legs.cli.datasets import datasets
from legs.cli.demo import demo
from legs.cli.embed import embed
from legs.cli.options import UsageError
from legs.cli.predict import predict
from legs.cli.report import report
from legs.cli.reproduce import reproduce
from legs.cli.train import train
from legs.io import printable

DEBUG = "--debug"
# Old names of options, until 0.3; --way also had another value.
RENAMED = {"--clip": "--grad-clip", "--seeds": "--num-splits", "--way": "--strategy"}
# Arguments that messages of the library name, as ``name=``, ``name='value'`` or ``name=3``.
ARGUMENTS = (
    *("on_error", "features", "directed", "target", "task", "smiles_column", "id_column"),
    *("hydrogens", "table", "device", "devices", "clip"),
)
_ARGUMENT = re.compile(rf"\b({'|'.join(ARGUMENTS)})=(?:'([^']*)'|(\d+(?:\.\d+)?))?(?![\w=])")

app = typer.Typer(
    name="legs",
    help="Learnable geometric scattering for graphs.",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for _command in (demo, datasets, train, predict, embed, cv, reproduce, report, bench):
    app.command()(_command)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
    _debug: Annotated[
        bool, typer.Option(DEBUG, help="Show the traceback of an error; valid with any command.")
    ] = False,
) -> None:
    if show_version:
        typer.echo(f"torch-legs {__version__}")
        raise typer.Exit()
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
    # PyTorch's idle threads spin for milliseconds, on cores that the kernels' threads need. It is
    # read when PyTorch is loaded, which no command has done yet.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    words = list(sys.argv[1:] if args is None else args)
    end = words.index("--") if "--" in words else len(words)
    # Click ties an option to one command, and people add --debug at the end of the line.
    debug = DEBUG in words[:end]
    words[:end] = rename_options([word for word in words[:end] if word != DEBUG])
    command = typer.main.get_command(app)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            # What PyG still uses is for its developers to know.
            for kind in (DeprecationWarning, FutureWarning):
                warnings.filterwarnings("ignore", "", kind, r"torch(_geometric|\.jit)\.")
            # Not its main(), which takes every EOFError for a closed prompt.
            with command.make_context("legs", list(words)) as context:
                command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
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
        return 2 if isinstance(error, UsageError) or hasattr(error, "format_message") else 1
    return 0


def rename_options(words: Sequence[str]) -> list[str]:
    """A command line with options by their present names, after a warning about each old one.

    >>> rename_options(["cv", "MUTAG", "--way", "single", "--clip=1"])
    ['cv', 'MUTAG', '--strategy', 'sequential', '--grad-clip=1']
    """
    renamed: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if new := RENAMED.get(name):
            typer.echo(f"legs: warning: {name} is now {new}", err=True)
            word = f"{new}{equals}{value}"
        renamed.append(word)
        if renamed[-2:] == ["--strategy", "single"] or word == "--strategy=single":
            renamed[-1] = word.replace("single", "sequential")
    return renamed


def as_flags(message: str, params: Sequence[Any]) -> str:
    """A message with flags in place of the arguments it names.

    A remark in parentheses is left out if it names an option that is not among the ``params`` of
    the command.
    """
    options = {param.name: param for param in params}
    if "symmetrize" in options:
        options["directed"] = options["symmetrize"]

    def flag(match: re.Match[str]) -> str:
        name, text, number = match.groups()
        if name not in options:
            return match[0]
        value = number if text is None else shlex.quote(text)
        longest: str = max(options[name].opts, key=len)
        return longest if value is None or options[name].is_flag else f"{longest} {value}"

    text = _ARGUMENT.sub(flag, message)
    return re.sub(r" ?\([^()]*\)", lambda m: "" if _ARGUMENT.search(m[0]) else m[0], text)


def _describe(error: Exception, words: Sequence[str]) -> str:
    """One line that says what went wrong, in the words of the command line."""
    # Typer refused the command line; where its errors are defined differs by version.
    if explain := getattr(error, "format_message", None):
        command = getattr(getattr(error, "ctx", None), "command_path", "legs")
        return f"{_one_line(explain())} (see {command} --help)"
    if isinstance(error, ModuleNotFoundError) and error.name in ("pandas", "pyarrow"):
        return f"the command needs {error.name}: pip install 'torch-legs[cli]'"
    text = _one_line(error)
    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    if command := next((commands[word] for word in words if word in commands), None):
        text = as_flags(text, command.params)
    # These carry a sentence written for people; of others the class name is half the message.
    if isinstance(error, ValueError | OSError | ImportError) and text:
        return text
    return f"{type(error).__name__}{': ' if text else ''}{text} ({DEBUG} shows where)"


def _show_warning(message: object, category: type[Warning], *args: Any, **kwargs: Any) -> None:
    """Our own warnings about files and data in one line; others as Python shows them."""
    from legs.data.errors import DataWarning
    from legs.io import FileWarning

    if issubclass(category, (FileWarning, DataWarning)):
        text = f"legs: warning: {_one_line(message)}\n"
    else:
        text = warnings.formatwarning(str(message), category, *args[:2])
    typer.echo(text, nl=False, err=True)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
