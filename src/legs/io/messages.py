"""Errors about files: of bounded length, and without characters that control a terminal."""

from __future__ import annotations

import re

_BEGINNING, _END = 1_500, 300  # characters of a long message that remain
# Control characters, marks that change the direction of writing, and bytes that were not UTF-8.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The same text with control characters escaped as in Python.

    >>> print(printable("a\x1b[31mb\n"))
    a\x1b[31mb\n
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class BoundedError(ValueError):
    """A message for people, cut in the middle where it is too long.

    >>> len(str(BoundedError("no column " + 100_000 * "a")))
    1803
    """

    def __init__(self, message: object = "") -> None:
        text = str(message)
        if len(text) > _BEGINNING + _END + 3:
            text = f"{text[:_BEGINNING]} … {text[-_END:]}"
        super().__init__(printable(text))


class FileError(BoundedError):
    """A file or folder that cannot be used; the message says why."""


class FileWarning(UserWarning):
    """A file that is used although it could not be verified, or is recreated as it is damaged."""
