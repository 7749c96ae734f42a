"""Messages name options in the language of their reader: flags on the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import legs.training
from legs.cli import main
from legs.cli.main import ARGUMENTS, RENAMED, app, as_flags
from tests.cli.molecules import rows, told, write

SOURCE = Path(legs.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
ARGUMENT = re.compile(rf"\b({'|'.join(ARGUMENTS)})=")
COMMANDS = {
    name: {flag for param in command.params for flag in param.opts} | {"--help", "--debug"}
    for name, command in typer.main.get_command(app).commands.items()
}
PARAMS = {name: c.params for name, c in typer.main.get_command(app).commands.items()}
# Where the flags of other programs are named.
OTHERS = re.compile(r"pip install --no-deps|ray start --head|^--(error-unmatch|short|porcelain)\b")


def messages(*folders: str) -> Iterator[tuple[str, str]]:
    """Texts in the source that are no docstrings, with gaps where something is filled in."""
    for folder in folders:
        for file in sorted((SOURCE / folder).rglob("*.py")):
            tree = ast.parse(file.read_text())
            docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            parts: set[int] = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.JoinedStr):
                    parts |= {id(value) for value in node.values}
                    text = "".join(
                        str(v.value) if isinstance(v, ast.Constant) else "0" for v in node.values
                    )
                    yield f"{file}:{node.lineno}", text
                elif isinstance(node, ast.Constant) and id(node) not in docs | parts:
                    yield f"{file}:{node.lineno}", str(node.value)


@pytest.mark.parametrize("folder", ["data", "models", "training", "engine", "explain", "io"])
def test_what_python_calls_names_no_flags(folder):
    found = 0
    for where, text in messages(folder):
        for part in re.split(r"(?=\blegs [a-z]+ )", OTHERS.sub("", text)):
            command = re.match(r"legs ([a-z]+) ", part)
            known = COMMANDS.get(command[1], set()) if command else set()
            assert set(FLAG.findall(part)) <= known, where
            found += 1
    assert found


def test_flags_of_reproduction_are_those_of_its_command():
    flags = {}
    for where, text in messages("../../reproduction"):
        flags |= dict.fromkeys(FLAG.findall(text), where)
    assert flags
    for flag, where in flags.items():
        assert flag in COMMANDS["reproduce"], where


def test_flags_that_commands_name_exist():
    everything = {"--version"}.union(*COMMANDS.values(), RENAMED)
    for where, text in messages("cli", "report"):
        for flag in FLAG.findall(text):
            assert flag in everything, where


@pytest.mark.parametrize("command", ["train", "cv", "predict", "embed", "datasets"])
def test_arguments_become_flags_that_the_command_has(command):
    named = 0
    for where, text in messages("data", "training", "engine"):
        if not ARGUMENT.search(text):
            continue
        shown = as_flags(text, PARAMS[command])
        assert set(FLAG.findall(OTHERS.sub("", shown))) <= COMMANDS[command], where
        if command == "train":
            named += 1
            assert not ARGUMENT.search(shown), where
    assert named or command != "train"


@pytest.mark.parametrize(
    ("text", "command", "shown"),
    [
        ("bad (on_error='skip' drops it)", "train", "bad (--on-error skip drops it)"),
        ("bad (on_error='skip' drops it)", "datasets", "bad"),
        ("directed='symmetrize' adds it", "cv", "--symmetrize adds it"),
        ("name it (smiles_column=)", "embed", "name it (--smiles-column)"),
        ("or id_column='' (numbers)", "predict", "or --id-column '' (numbers)"),
        ("id_column= does not apply to A", "predict", "--id-column does not apply to A"),
        ("devices=2, but there is 1", "train", "--devices 2, but there is 1"),
        ("such as lr=0.001,0.003", "cv", "such as lr=0.001,0.003"),
    ],
)
def test_as_flags(text, command, shown):
    assert as_flags(text, PARAMS[command]) == shown


def test_a_bad_row_on_the_command_line(tmp_path, capsys):
    pytest.importorskip("rdkit", reason="the table holds SMILES")
    table = rows(5)
    table[2]["smiles"] = "C1CC"
    data = write(tmp_path / "a.csv", ("smiles", "kind"), table)
    assert main(["train", str(data), "-o", str(tmp_path / "run")]) == 1
    assert "(--on-error skip drops such rows)" in told(capsys)
    assert main(["datasets", str(data)]) == 1
    assert "on" + "_error" not in told(capsys)
    with pytest.raises(ValueError, match=r"\(on_error='skip' drops such rows\)"):
        legs.data.load(data)
