"""The command's front door: help, version, errors."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from legs.cli import main
from legs.cli.main import app


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch):
    """Add a command ``fail`` that raises what it is told to."""
    errors = {
        "value": ValueError("the weights of graph 3\n  are negative"),
        "key": KeyError("colour"),
        "bare": RuntimeError(),
    }
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))

    @app.command()
    def fail(kind: str) -> None:
        raise errors[kind]

    return errors


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"torch-legs {version('torch-legs')}\n"


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_help_lists_commands_and_options(args, capsys):
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "demo" in out
    assert "--debug" in out


def test_help_of_a_command(capsys):
    assert main(["demo", "--help"]) == 0
    assert "--limit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["dmeo"], "dmeo"),
        (["--colour"], "--colour"),
        (["demo", "--colour"], "--colour"),
        (["demo", "--limit", "many"], "--limit"),
        (["demo", "--limit", "3"], "50"),
    ],
)
def test_wrong_usage_is_one_line(args, word, capsys):
    assert main(args) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("legs: ")
    assert captured.err.count("\n") == 1
    assert word in captured.err


def test_error_for_people_is_its_sentence_alone(fail, capsys):
    assert main(["fail", "value"]) == 1
    assert capsys.readouterr().err == "legs: the weights of graph 3 are negative\n"


@pytest.mark.parametrize(
    ("kind", "text"), [("key", "KeyError: 'colour'"), ("bare", "RuntimeError")]
)
def test_unexpected_error_names_its_class(kind, text, fail, capsys):
    assert main(["fail", kind]) == 1
    assert capsys.readouterr().err == f"legs: {text} (--debug shows where)\n"


@pytest.mark.parametrize("args", [["--debug", "fail", "value"], ["fail", "value", "--debug"]])
def test_debug_raises_from_anywhere_on_the_line(args, fail):
    with pytest.raises(ValueError, match="graph 3"):
        main(args)


def test_debug_after_a_double_dash_is_an_argument(fail, capsys):
    assert main(["fail", "--", "--debug"]) == 1
    assert "KeyError: '--debug'" in capsys.readouterr().err


def test_debug_changes_nothing_when_all_is_well(capsys):
    assert main(["--debug", "--version"]) == 0
    assert capsys.readouterr().out.startswith("torch-legs ")


def test_the_command_is_light():
    """``legs --help`` must not wait for torch, RDKit and the like."""
    heavy = "{'torch', 'torch_geometric', 'rdkit', 'sklearn', 'scipy', 'pandas', 'matplotlib'}"
    code = f"import sys, legs.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
