"""Errors whose messages quote what a file holds, which may be of any length."""

from __future__ import annotations

_BEGINNING, _END = 1_500, 300  # characters that are kept of a message


class BoundedError(ValueError):
    """A message for a person, cut in its middle where it is too long to be one.

    >>> len(str(BoundedError("no column " + 100_000 * "a")))
    1803
    """

    def __init__(self, message: object = "") -> None:
        text = str(message)
        if len(text) > _BEGINNING + _END + 3:
            text = f"{text[:_BEGINNING]} … {text[-_END:]}"
        super().__init__(text)
