"""What is fuzzed: how an input is made, how it is read, what may come of it."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from typing import Any

from legs.cli.options import UsageError
from legs.data.errors import DataError
from legs.io import FileError
from legs.report.folders import ReportError
from tests.fuzz import memory
from tests.fuzz.mutate import mutated

Files = dict[str, bytes]  # by their names in a folder
MOST_KEPT = 100
LONGEST_MESSAGE = 4_000
_VARIABLE = re.compile(r"""[0-9]+|['"].*?['"]""")  # what differs from message to message


class Broken(AssertionError):
    """A property that does not hold."""


@dataclass
class Target:
    """A parser.

    Args:
        name: of it.
        seeds: valid inputs.
        read: reads the files of a folder; the result goes to ``check``.
        check: raises :class:`Broken` if what was read is not whole.
        make: makes an input (default: one file of a seed, mutated).
        words: of the format, for mutations.
        plain: whether a plain ``ValueError`` is a refusal as well, as on the command line.
        rewrites: patterns of files that reading may write; all others stay as they are.

    ``peak`` is the most memory that an input has taken, in bytes.
    """

    name: str
    seeds: Sequence[Files]
    read: Callable[[Path], Any]
    check: Callable[[Any], None] = lambda found: None
    make: Callable[[Random, Files], Files] | None = None
    words: tuple[bytes, ...] = (b"",)
    plain: bool = False
    rewrites: tuple[str, ...] = ()
    peak: int = 0
    kept: list[Files] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def input(self, rng: Random) -> Files:
        """The next input; those before it that led somewhere new serve as seeds as well."""
        known = self.kept if self.kept and rng.random() < 0.5 else self.seeds
        seed = rng.choice(known)
        if self.make is not None:
            for _ in range(10):
                try:
                    return self.make(rng, seed)
                except Exception:  # of what was made wrong before, not everything can be made anew
                    seed = rng.choice(self.seeds)
            return seed
        name = rng.choice(sorted(seed))
        others = (*self.words, *(other[name] for other in self.seeds if name in other))
        return {**seed, name: mutated(rng, seed[name], others)}

    def try_one(self, folder: Path, files: Files) -> str:
        """Writes an input into an empty folder and reads it.

        Returns:
            ``"accepted"`` or ``"refused"``.

        Raises:
            Broken: anything else.
        """
        write(folder, files)
        measured = memory.Peak()
        try:
            with measured:
                self.check(self.read(folder))
            outcome, told = "accepted", ""
        except Broken:
            raise
        except (DataError, FileError, ReportError, UsageError) as error:
            outcome, told = "refused", str(error)
        except ValueError as error:
            if not self.plain or type(error) is not ValueError:
                raise Broken(_described(error)) from error
            outcome, told = "refused", str(error)
        except Exception as error:
            raise Broken(_described(error)) from error
        finally:
            self.peak = max(self.peak, measured.bytes)
        if measured.bytes > memory.MOST:
            raise Broken(f"{measured.bytes >> 20:,} MB of memory, {outcome}: {told[:200]!r}")
        # On the command line people see what they typed.
        most = 1_000_000 if self.plain else LONGEST_MESSAGE
        if outcome == "refused" and not 0 < len(told.strip()) <= most:
            raise Broken(f"a message of {len(told)} characters: {told[:200]!r}")
        self._check_folder(folder, files)
        self._keep(files, f"{outcome} {_VARIABLE.sub('', told)[:80]}")
        return outcome

    def _check_folder(self, folder: Path, files: Files) -> None:
        """Everything is as it was, except for what reading may write."""

        def others(names: Iterable[str]) -> list[str]:
            return sorted(n for n in names if not any(fnmatch(n, p) for p in self.rewrites))

        left, expected = others(listing(folder)), others(files)
        if left != expected:
            raise Broken(f"left in the folder: {left}, not {expected}")
        changed = [name for name in left if (folder / name).read_bytes() != files[name]]
        if changed:
            raise Broken(f"changed in the folder: {changed}")

    def _keep(self, files: Files, came_of_it: str) -> None:
        if came_of_it not in self.seen and len(self.kept) < MOST_KEPT:
            self.seen.add(came_of_it)
            if sum(map(len, files.values())) < 50_000:
                self.kept.append(files)


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Puts files into a folder, and removes all others."""
    for name in set(listing(folder)) - set(files):
        (folder / name).unlink()
    for name, content in files.items():
        path = folder / name
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
        with open(path, "wb", buffering=0) as file:
            file.write(content)


def listing(folder: Path) -> list[str]:
    """Names of all files below a folder."""
    found = []
    for place, _, names in os.walk(folder):
        start = os.path.relpath(place, folder)
        found += [name if start == "." else f"{start}/{name}" for name in names]
    return sorted(found)


def _described(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/legs/" in frame.filename] or list(frames)
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    return f"{type(error).__name__} at {where}: {' '.join(str(error).split())[:300]}"
