"""The selection matrix of learned scales, epoch by epoch: how the filters moved in training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from legs.io import append, write_atomically
from legs.nn import Scattering

FILE = "scales.jsonl"
# Epochs that are kept at the end: enough to see them move, few enough for a page.
KEPT = 200
DIGITS = 4


class ScaleLog:
    """Writes ``scales.jsonl``: a row an epoch with ``F`` (``weights``) and ``laziness``.

    Nothing is written for a model without learned scales. The row of epoch 0 is the start.

    Args:
        folder: of the run, or ``None`` to write nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.file = None if folder is None else folder / FILE
        self.module: Scattering | None = None

    def watch(self, network: nn.Module) -> None:
        """Notes the scales of a network that is about to be trained, if it learns any.

        Methods build their networks themselves, some of them several; the first with learned
        scales is the one to note.

        Args:
            network: initialised.
        """
        if self.file is None or self.module is not None:
            return
        found = (m for m in network.modules() if isinstance(m, Scattering))
        self.module = next((m for m in found if m.selection.learned), None)
        if not self.file.exists():
            self.add(0)

    def add(self, epoch: int) -> None:
        """Notes an epoch."""
        # Frozen scales, under the common head of two networks, have been noted before.
        if self.file is None or self.module is None or not _learning(self.module):
            return
        row = {
            "epoch": epoch,
            "weights": _listed(self.module.scale_weights()),
            "laziness": _listed(torch.as_tensor(self.module.walk.laziness)),
        }
        append(self.file, json.dumps(row) + "\n")

    def finish(self, best: int) -> None:
        """Leaves at most ``KEPT`` epochs, once each; the first, the last and ``best`` among them.

        Args:
            best: the epoch whose weights are kept.
        """
        if self.file is None or not self.file.exists():
            return
        # A run that was killed notes some epochs twice; the later ones count.
        rows = {row["epoch"]: row for row in _rows(self.file.read_text(encoding="utf-8"))}
        kept = thinned(sorted(rows), KEPT, best)
        text = "".join(json.dumps(rows[epoch]) + "\n" for epoch in kept)
        write_atomically(self.file, text.encode())


def thinned(epochs: Sequence[int], most: int, best: int) -> list[int]:
    """Some of the epochs, evenly spread, with both ends and the best.

    >>> thinned(range(0, 101), 5, best=60)
    [0, 25, 50, 60, 75, 100]
    """
    if len(epochs) <= most:
        return list(epochs)
    step = (len(epochs) - 1) / (most - 1)
    chosen = {epochs[round(k * step)] for k in range(most)}
    return sorted(chosen | ({best} & set(epochs)))


def _learning(module: Scattering) -> bool:
    theta = module.selection.theta
    return theta is not None and theta.requires_grad


def _listed(tensor: Tensor) -> Any:
    # Numbers first, then rounding: in float32 the digits would come back.
    values = tensor.detach().double().cpu()
    return values.mul(10**DIGITS).round().div(10**DIGITS).tolist()


def _rows(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # half a line, left by a run that was killed
            continue
