"""The command's front door: help, version, errors."""

import subprocess
import sys
import warnings

import pytest

from legs import __version__
from legs.cli import main
from legs.cli.main import app
from legs.io import FileWarning


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch):
    """Add a command ``fail`` that raises what it is told to."""
    errors = {
        "value": ValueError("the weights of graph 3\n  are negative"),
        "key": KeyError("colour"),
        "bare": RuntimeError(),
        "end": EOFError("No data left in file"),
        "stop": KeyboardInterrupt(),
    }
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))

    @app.command()
    def fail(kind: str) -> None:
        raise errors[kind]

    return errors


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"torch-legs {__version__}\n"


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
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("legs: ")
    assert captured.err.count("\n") == 1
    assert word in captured.err


def test_error_for_people_is_its_sentence_alone(fail, capsys):
    assert main(["fail", "value"]) == 1
    assert capsys.readouterr().err == "legs: the weights of graph 3 are negative\n"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("key", "KeyError: 'colour'"),
        ("bare", "RuntimeError"),
        ("end", "EOFError: No data left in file"),
    ],
)
def test_unexpected_error_names_its_class(kind, text, fail, capsys):
    assert main(["fail", kind]) == 1
    assert capsys.readouterr().err == f"legs: {text} (--debug shows where)\n"


def test_an_interruption_is_no_error(fail, capsys):
    assert main(["fail", "stop"]) == 130
    assert capsys.readouterr().err.strip() == "legs: interrupted"


def test_the_end_of_a_file_is_raised_with_debug(fail):
    with pytest.raises(EOFError, match="No data left"):
        main(["--debug", "fail", "end"])


def test_a_warning_about_a_file_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))

    @app.command()
    def doubt() -> None:
        warnings.warn("some.json has no checksum", FileWarning, stacklevel=1)

    assert main(["doubt"]) == 0
    assert capsys.readouterr().err == "legs: warning: some.json has no checksum\n"


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


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["train", "~nosuchuser/x.csv", "-o", "run"], "no user 'nosuchuser'"),
        (["embed", "legs-fixed", "~nosuchuser/x.csv", "-o", "e.csv"], "no user 'nosuchuser'"),
        (["embed", "legs-fixed", "x.csv", "-o", "~nosuchuser/e.csv"], "no user 'nosuchuser'"),
        (["embed", "legs-fixed", "x.csv", "-o", "~nosuchuser/e"], "no user 'nosuchuser'"),
        (["train", "x.csv", "-o", "~nosuchuser/run"], "no user 'nosuchuser'"),
        (["predict", "~nosuchuser/run", "x.csv", "-o", "p.csv"], "no user 'nosuchuser'"),
        (["report", "~nosuchuser/run"], "no user 'nosuchuser'"),
    ],
)
def test_the_home_of_nobody(args, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("smiles,y\nC,1\nCC,2\n")
    assert main(args) == 1
    error = capsys.readouterr().err
    assert error.startswith("legs: ")
    assert text in error
    assert [file.name for file in tmp_path.iterdir()] == ["x.csv"]


def test_old_names_of_options_warn(tmp_path, capsys):
    args = ["cv", str(tmp_path / "none.csv"), "--way", "single", "--clip=1", "--seeds", "2"]
    assert main(args) == 1
    *notes, error = capsys.readouterr().err.splitlines()
    assert notes == [
        "legs: warning: --way is now --strategy",
        "legs: warning: --clip is now --grad-clip",
        "legs: warning: --seeds is now --num-splits",
    ]
    assert "no such file" in error
    assert main(["train", "x.csv", "-o", "run", "--way", "single"]) == 2  # of legs cv alone


def test_python_m_legs():
    command = [sys.executable, "-m", "legs", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("torch-legs ")
