"""Small files made wrong: bytes, numbers and JSON values changed at random."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

NUMBERS = (
    *(b"0", b"-1", b"1", b"-0.0", b"255", b"65536", b"2147483648", b"4294967296"),
    *(b"9223372036854775808", b"99999999999999999999999", b"1e308", b"1e-320", b"1e999", b"-1e39"),
    *(b"nan", b"NaN", b"inf", b"-inf", b"0x1F", b"1_000", b"1,5", "٣".encode(), b"--5", b"1e"),
)
PIECES = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\x28", b"\r", b"\n", b"\r\n", b"\n\n", b"\t"),
    *(b",", b";", b'"', b"'", b'""', b"#", b"{", b"}", b"[", b"]", b"<", b">", b"&", b"/", b"\\"),
    *(b" ", b"  ", b"../", b"\x1a", b"\xed\xa0\x80", "\u2028".encode(), "\u202e".encode()),
)
WHOLE = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 16, 17, 10**6, 10**9, 10**18, 2**63, -(2**63), 10**400),
    *(0.5, -0.5, 1e-320, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "a", "0", "learned", "dyadic", "../x", "\x00", "\ud800", "ä" * 50, "mean", "legs-fcn"),
    *([], [1], [1, 2, 4], [[]], [None], {}, {"a": 1}, {"kind": "GNN"}, [0] * 100),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def mutated(rng: Random, content: bytes, others: Sequence[bytes] = (b"",)) -> bytes:
    """A few changes to some bytes.

    Args:
        rng: decides everything.
        content: a valid file.
        others: files, pieces of which may be spliced in, and words of the format.
    """
    for _ in range(1 + int(rng.expovariate(0.8))):
        content = rng.choice(_CHANGES)(rng, content, others)
    return content


def mutated_json(rng: Random, value: Any) -> Any:
    """A copy of a JSON value with some of its parts replaced, dropped, doubled or renamed."""
    for _ in range(1 + int(rng.expovariate(1.2))):
        value = _changed(rng, value, 0)
    return value


def _changed(rng: Random, value: Any, depth: int) -> Any:
    if isinstance(value, dict) and value and rng.random() > 0.1 / (depth + 1):
        names = list(value)
        name, changed = rng.choice(names), dict(value)
        match rng.randrange(10):
            case 0:
                del changed[name]
            case 1:
                changed[str(rng.choice(("", "x", *names)))] = changed.pop(name)
            case 2:
                changed[rng.choice(("x", "order", "steps", name))] = rng.choice(VALUES)
            case _:
                changed[name] = _changed(rng, value[name], depth + 1)
        return changed
    if isinstance(value, list) and value and rng.random() > 0.1 / (depth + 1):
        place, some = rng.randrange(len(value)), list(value)
        match rng.randrange(8):
            case 0:
                del some[place]
            case 1:
                some.insert(place, some[place])
            case 2:
                some = some * rng.randrange(4)
            case _:
                some[place] = _changed(rng, value[place], depth + 1)
        return some
    if isinstance(value, str) and value and rng.random() < 0.3:
        place = rng.randrange(len(value))
        return value[:place] + rng.choice(("", "x", "\0", "é")) + value[place + 1 :]
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice((value + 1, value - 1, -value, value * 10, float(value), str(value)))
    return rng.choice(VALUES)


def _place(rng: Random, content: bytes) -> int:
    # Headers and ends decide more than what lies between.
    if content and rng.random() < 0.3:
        near = min(len(content), 64)
        return rng.choice((rng.randrange(near), len(content) - 1 - rng.randrange(near)))
    return rng.randrange(len(content) + 1)


def _flip(rng: Random, content: bytes, _: Any) -> bytes:
    place = min(_place(rng, content), len(content) - 1)
    if place < 0:
        return b"\x00"
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def _set(rng: Random, content: bytes, _: Any) -> bytes:
    place = _place(rng, content)
    return content[:place] + rng.randbytes(1 + rng.randrange(4)) + content[place + 1 :]


def _piece(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    place = _place(rng, content)
    piece = rng.choice(PIECES) if rng.random() < 0.6 else rng.choice(others)[:40]
    return content[:place] + piece + content[place + rng.randrange(3) :]


def _number(rng: Random, content: bytes, _: Any) -> bytes:
    found = [*_NUMBER.finditer(content)]
    if not found:
        return content + rng.choice(NUMBERS)
    chosen = rng.choice(found)
    return content[: chosen.start()] + rng.choice(NUMBERS) + content[chosen.end() :]


def _whole(rng: Random, content: bytes, _: Any) -> bytes:
    """A whole number of a binary format."""
    place = _place(rng, content)
    width, letter = rng.choice(((1, "B"), (2, "H"), (4, "I"), (8, "Q")))
    number = rng.choice(WHOLE) % 256**width
    packed = struct.pack(rng.choice("<>") + letter, number)
    return content[:place] + packed + content[place + width :]


def _cut(rng: Random, content: bytes, _: Any) -> bytes:
    start = _place(rng, content)
    return content[:start] + content[start + 1 + int(rng.expovariate(0.05)) :]


def _double(rng: Random, content: bytes, _: Any) -> bytes:
    start, size = _place(rng, content), 1 + int(rng.expovariate(0.05))
    return (
        content[:start]
        + content[start : start + size] * rng.choice((2, 2, 3, 50))
        + content[start:]
    )


def _swap(rng: Random, content: bytes, _: Any) -> bytes:
    a, b, c = sorted(_place(rng, content) for _ in range(3))
    return content[:a] + content[b:c] + content[a:b] + content[c:]


def _end(rng: Random, content: bytes, _: Any) -> bytes:
    return content[: _place(rng, content)]


def _splice(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others)
    return content[: _place(rng, content)] + other[_place(rng, other) :]


def _run(rng: Random, content: bytes, _: Any) -> bytes:
    place = _place(rng, content)
    size = rng.choice((100, 100, 1_000, 70_000)) if rng.random() < 0.2 else 10
    return (
        content[:place]
        + rng.choice((b"9", b"A", b"(", b"[", b"\n", b" ", b"\x00")) * size
        + content[place:]
    )


_CHANGES = (
    _flip,
    _flip,
    _set,
    _piece,
    _piece,
    _number,
    _number,
    _whole,
    _cut,
    _double,
    _swap,
    _end,
    _splice,
    _run,
)
