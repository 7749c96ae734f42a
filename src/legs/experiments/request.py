"""What is asked of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from legs.data.registry import lookup
from legs.training.methods import check_method

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Request:
    """How an experiment is to be run.

    Args:
        folder: for results; a run that was stopped goes on from there.
        quick: small but real, in minutes on two cores; never the paper's protocol.
        datasets: names of sets (default: those of the experiment).
        models: names of methods (default: those of the experiment).
        device: ``"cpu"`` (default) or ``"cuda"``.
        rotations: models a test set (default: the paper's nine, or what the experiment says).
        seed: of partitions, weights and batches (default 0).
        shuffled: give every graph another's label: what is left is chance.
        minutes: begin no cell after so many (default: no limit).
        reuse: folders of other runs whose finished cells may be taken, where settings are the same.
        observed: a CSV file of observed exchanges, for ``enzymes``.
        workers: processes on the CPU (default: one a core).
        command: the command line, for the record.
        engine: where cells are done: ``"local"`` (default), one after the other, or ``"ray"``.
        address: of the Ray cluster.
        at_once: cells at a time on this machine, each in a process of its own (default 1); they
            share the device, and the record says so beside their times.
    """

    folder: Path
    quick: bool = False
    datasets: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    device: str = "cpu"
    rotations: int | None = None
    seed: int = 0
    shuffled: bool = False
    minutes: float | None = None
    reuse: tuple[Path, ...] = ()
    observed: Path | None = None
    workers: int | None = None
    command: str = ""
    engine: str = "local"
    address: str | None = None
    at_once: int = 1

    def sets(self, known: Sequence[str], quick: Sequence[str]) -> list[str]:
        """The sets to take.

        Args:
            known: all that the experiment has.
            quick: those it takes by default if it is to be quick.

        >>> Request(Path("x"), datasets=("ptc", "mutag")).sets(["MUTAG", "PTC_MR"], [])
        ['MUTAG', 'PTC_MR']
        >>> Request(Path("x"), datasets=("QM9",)).sets(["MUTAG", "PTC_MR"], [])
        Traceback (most recent call last):
        ...
        ValueError: --datasets takes some of MUTAG, PTC_MR; got 'QM9'
        """
        if not self.datasets:
            return list(quick if self.quick else known)
        found = []
        for name in self.datasets:
            entry = lookup(name)
            if entry is None or entry.name not in known:
                raise ValueError(f"--datasets takes some of {', '.join(known)}; got {name!r}")
            found.append(entry.name)
        return [name for name in known if name in found]

    def methods(self, known: Sequence[str]) -> list[str]:
        """The methods to take; any that there is may be asked for.

        Args:
            known: those of the experiment.

        >>> Request(Path("x"), models=("gcn", "legs-attn-fcn")).methods(["legs-fcn", "gcn"])
        ['gcn', 'legs-attn-fcn']
        """
        if not self.models:
            return list(known)
        for name in self.models:
            if name not in known:  # those may be no method elsewhere, such as a mean
                check_method(name)
        asked = list(dict.fromkeys(self.models))
        return [n for n in known if n in asked] + [n for n in asked if n not in known]
