"""Cells of a table: one method on one data set, and how it is cross-validated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from legs.data import load
from legs.data.dataset import GraphDataset
from legs.data.splits import Split, stratified_folds
from legs.experiments.request import Request
from legs.experiments.settings import rates_for
from legs.training import CVOptions, TrainingOptions
from legs.training.checkpoint import plain
from legs.training.cv_measures import Measure
from legs.training.methods import ENSEMBLES

# Message passing on these takes one model a test set, and the tables say so.
LARGE = ("COLLAB", "REDDIT-MULTI-12K", "REDDIT-MULTI-5K")
MESSAGE_PASSING = ("gcn", "graphsage", "gat", "gin", "snowball")
_ONE_MODEL = (*MESSAGE_PASSING, *ENSEMBLES)

QUICK_FOLDS, QUICK_EPOCHS, QUICK_PATIENCE, QUICK_GRAPHS = 5, 100, 30, 200
QUICK_RATE = 1e-2
_SHUFFLE_SEED = 7


@dataclass(frozen=True)
class Cell:
    """One method on one data set.

    Args:
        data: name of the set.
        method: as :func:`legs.training.methods` lists them.
        options: of the cross-validation.
        variant: what else tells the cell from others of its table (default: nothing).
        features: blocks of node features (default: the paper's).
        limit: at most so many graphs, every class in its share (default: all).
        shuffled: whether labels are shuffled.
        embedded: whether features of all graphs are wanted from every network.
    """

    data: str
    method: str
    options: CVOptions
    variant: str = ""
    features: str = "structure"
    limit: int | None = None
    shuffled: bool = False
    embedded: bool = False

    @property
    def key(self) -> str:
        """Its name among the cells of a table; also that of its folder.

        >>> Cell("MUTAG", "gcn", CVOptions(), "20 %, 10 %").key
        'MUTAG-gcn-20-10'
        """
        words = "".join(c if c.isalnum() or c == "_" else " " for c in self.variant).split()
        return "-".join([self.data, self.method, *words, *["shuffled"] * self.shuffled])

    @property
    def title(self) -> str:
        """Its name for people."""
        parts = [self.data, self.method, self.variant, "shuffled labels" if self.shuffled else ""]
        return ", ".join(part for part in parts if part)

    @property
    def models(self) -> int:
        """How many models it takes."""
        options = self.options
        if self.method == "gs-svm":
            return options.folds
        return options.folds * self.rotations * len(options.grid)

    @property
    def rotations(self) -> int:
        """Models a test set and setting."""
        most = self.options.folds - self.options.test_folds
        return min(most, self.options.rotations or most)

    @property
    def protocol(self) -> str:
        """How it is cross-validated, in words.

        >>> Cell("MUTAG", "gcn", CVOptions(rotations=1)).protocol
        '10 test sets × 1 model'
        """
        options, training = self.options, self.options.training
        many = self.rotations if self.method != "gs-svm" else 1
        words = f"{options.folds} test sets × {many} model{'s' * (many > 1)}"
        if self.limit is not None:
            words += f", {self.limit} graphs, {training.max_epochs} epochs at most"
        return words

    def settings(self) -> dict[str, Any]:
        """Everything that its result depends on, as JSON values."""
        known: dict[str, Any] = {
            "data": self.data,
            "method": self.method,
            "features": self.features,
            "limit": self.limit,
            "shuffled": self.shuffled,
            "options": self.options.to_json(),
        }
        if self.embedded:
            known["embedded"] = True
        return plain(known)

    @property
    def measures(self) -> Mapping[str, Measure]:
        """What is taken from trained networks besides their answers."""
        return {}

    def splits(self, data: GraphDataset) -> list[Split] | None:
        """Splits of its own, one a test set; ``None`` for those of the options."""
        return None

    def load(self) -> GraphDataset:
        """Its graphs."""
        data = load(self.data, features=self.features)
        assert data.y is not None
        if self.limit is not None and self.limit < len(data):
            # Sets are often sorted by class: the first graphs would be of one.
            parts = -(-len(data) // self.limit)
            data = data.subset(stratified_folds(data.y.numpy(), k=parts)[0])
        if self.shuffled:
            assert data.y is not None
            generator = torch.Generator().manual_seed(_SHUFFLE_SEED)
            data = replace(data, y=data.y[torch.randperm(len(data), generator=generator)])
        return data


def make_cell(
    request: Request,
    data: str,
    method: str,
    *,
    test_folds: int = 1,
    quick_folds: int = QUICK_FOLDS,
    **more: Any,
) -> Cell:
    """A cell of the paper's protocol, or a small one if the request is for a quick run.

    Args:
        request: what was asked for.
        data: name of the set.
        method: its name.
        test_folds: partitions in a test set (default 1).
        quick_folds: partitions of a quick run (default 5).
        more: further fields of :class:`Cell`.
    """
    rotations = request.rotations
    if rotations is None and (request.quick or (data in LARGE and method in _ONE_MODEL)):
        rotations = 1
    training = TrainingOptions(seed=request.seed)
    rates: Sequence[float] = rates_for(data, method)
    folds = 10
    if request.quick:
        training = replace(training, max_epochs=QUICK_EPOCHS, patience=QUICK_PATIENCE)
        rates, folds = (QUICK_RATE,), quick_folds
        more.setdefault("limit", QUICK_GRAPHS)
    # GS-SVM chooses C and γ on folds of its own.
    grid = ({},) if method == "gs-svm" else tuple({"lr": rate} for rate in rates)
    options = CVOptions(folds, rotations, test_folds, training=training, grid=grid)
    return Cell(data, method, options, shuffled=request.shuffled, **more)
