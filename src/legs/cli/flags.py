"""Flags on the command line: old names, and messages of the library that name arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

# Old names of options, by command; some had other values, too.
RENAMED: dict[str, dict[str, str]] = {
    "train": {"--clip": "--grad-clip"},
    "cv": {"--clip": "--grad-clip", "--seeds": "--num-splits", "--way": "--strategy"},
}
_OLD_VALUES = {("--way", "single"): "sequential"}

# Arguments that messages of the library name, as ``name=``, ``name='value'`` or ``name=3``.
ARGUMENTS = (
    *("on_error", "features", "directed", "target", "task", "smiles_column", "id_column"),
    *("hydrogens", "table", "device", "devices", "clip"),
)
_OPTIONS = {"directed": "symmetrize"}  # with another name as an option
_VALUE = r"(?:'(?P<text>[^']*)'|(?P<number>\d+(?:\.\d+)?))?"
_ARGUMENT = re.compile(rf"\b(?P<name>{'|'.join(ARGUMENTS)})={_VALUE}(?![\w=])")


def rename_options(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command line with options by their present names, and a warning for each old one.

    >>> rename_options(["cv", "MUTAG", "--way", "single", "--clip=1"])[0]
    ['cv', 'MUTAG', '--strategy', 'sequential', '--grad-clip', '1']
    """
    command = next((arg for arg in args if not arg.startswith("-")), "")
    renamed: list[str] = []
    warnings: list[str] = []
    rest = iter(args)
    for arg in rest:
        name, equals, value = arg.partition("=")
        if arg == "--":
            return [*renamed, arg, *rest], warnings
        if new := RENAMED.get(command, {}).get(name):
            warnings.append(f"{name} is now {new}")
            value = value if equals else next(rest, "")
            renamed += [new, _OLD_VALUES.get((name, value), value)]
        else:
            renamed.append(arg)
    return renamed, warnings


def as_flags(message: str, params: Sequence[Any]) -> str:
    """A message with flags in place of the arguments it names.

    A remark in parentheses is left out if it names an option that the command does not have.

    Args:
        message: of an error or a warning.
        params: of the command, as click has them.
    """
    flags = {param.name: max(param.opts, key=len) for param in params}
    bare = {param.name for param in params if getattr(param, "is_flag", False)}

    def flag(match: re.Match[str]) -> str:
        name = _OPTIONS.get(match["name"], match["name"])
        if name not in flags:
            return match[0]
        value = match["number"] if match["text"] is None else shlex.quote(match["text"])
        return flags[name] if value is None or name in bare else f"{flags[name]} {value}"

    def remark(match: re.Match[str]) -> str:
        return "" if _ARGUMENT.search(match[0]) else match[0]

    return re.sub(r" ?\([^()]*\)", remark, _ARGUMENT.sub(flag, message))
