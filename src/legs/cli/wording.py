"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

# Arguments that messages of the library name, as ``name=``, ``name='value'`` or ``name=3``.
ARGUMENTS = (
    "on_error",
    "features",
    "directed",
    "target",
    "task",
    "smiles_column",
    "id_column",
    "hydrogens",
    "table",
    "device",
    "devices",
    "clip",
)
_OTHER_NAMES = {
    "directed": "symmetrize",
    "clip": "grad_clip",
}  # of the same option on the command line
_VALUE = r"(?:'(?P<text>[^']*)'|(?P<number>\d+(?:\.\d+)?))?"
_ARGUMENT = re.compile(rf"\b(?P<name>{'|'.join(ARGUMENTS)})={_VALUE}(?![\w=])")


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
        name = _OTHER_NAMES.get(match["name"], match["name"])
        if name not in flags:
            return match[0]
        value = match["number"] if match["text"] is None else shlex.quote(match["text"])
        return flags[name] if value is None or name in bare else f"{flags[name]} {value}"

    def remark(match: re.Match[str]) -> str:
        return "" if _ARGUMENT.search(match[0]) else match[0]

    return re.sub(r" ?\([^()]*\)", remark, _ARGUMENT.sub(flag, message))
