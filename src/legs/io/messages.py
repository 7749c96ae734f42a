"""Text of files for people: errors of bounded length, and nothing that a terminal obeys."""

from __future__ import annotations

import re

_BEGINNING, _END = 1_500, 300  # characters that are kept of a message
# Control characters, marks that turn the direction of writing, and bytes that were no UTF-8.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The same text, in which control characters are escaped as in Python.

    >>> print(printable("a\x1b[31mb\n"))
    a\x1b[31mb\n
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class BoundedError(ValueError):
    """A message for a person, cut in its middle where it is too long to be one.

    >>> len(str(BoundedError("no column " + 100_000 * "a")))
    1803
    """

    def __init__(self, message: object = "") -> None:
        text = str(message)
        if len(text) > _BEGINNING + _END + 3:
            text = f"{text[:_BEGINNING]} … {text[-_END:]}"
        super().__init__(printable(text))
