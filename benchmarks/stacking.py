"""The paper's 90 models of a data set at once against one after another, with the same kernels.

One by one, a few models are trained and the rest extrapolated; all models do the same number of
epochs both ways.
"""

from __future__ import annotations

import argparse
import time

import torch

from legs.data import load
from legs.training.cv.models import Job, Shared, make_member
from legs.training.cv.protocol import CVOptions, plan_splits
from legs.training.inputs import Inputs
from legs.training.options import TrainingOptions
from legs.training.stacked.trainer import train_single, train_stack

ALONE = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="MUTAG")
    parser.add_argument("--model", nargs="+", default=["legs-fixed", "legs-fcn"])
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    data = load(given.data, features="structure")
    assert data.y is not None
    options = TrainingOptions(max_epochs=given.epochs, patience=given.epochs)
    splits = [split for group in plan_splits(data, CVOptions()) for split in group]
    for model in given.model:

        def made(count: int, model: str = model) -> list:
            return [
                make_member(model, Job(k, s, {}), Shared(data, options))
                for k, s in enumerate(splits[:count])
            ]

        members = made(len(splits))
        inputs = Inputs(data, members[0].network, torch.device("cpu"))
        train_stack(made(2), inputs, data.y, TrainingOptions(max_epochs=1))
        start = time.perf_counter()
        train_stack(members, inputs, data.y, options)
        stacked = time.perf_counter() - start
        alone = made(ALONE)
        start = time.perf_counter()
        for member in alone:
            train_single(member, inputs, data.y, options)
        single = (time.perf_counter() - start) / ALONE * len(splits)
        print(
            f"{data.name}, {model}, {len(splits)} models, {given.epochs} epochs: "
            f"at once is {single / stacked:.1f} times as fast as one by one"
        )


if __name__ == "__main__":
    main()
