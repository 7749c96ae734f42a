"""Every method beside a guess, with its number of parameters: MUTAG, and 1,000 molecules of ZINC.

MUTAG: structure features, ten folds, one model a fold. ZINC: ten properties, one random split.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from legs.data import load
from legs.training import methods
from legs.training.cv.cross_validation import cross_validate
from legs.training.cv.protocol import CVOptions
from legs.training.cv.results import markdown, summary, write_results
from legs.training.options import TrainingOptions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("runs/every-model"))
    folder = parser.parse_args().output
    training = TrainingOptions(max_epochs=300, patience=50, validate_every=5)
    plans = {
        "MUTAG": (load("MUTAG", features="structure"), CVOptions(rotations=1, training=training)),
        "ZINC": (
            load("zinc-bbab", limit=1000),
            CVOptions(seeds=(0,), training=training),
        ),
    }
    for name, (data, options) in plans.items():
        result = cross_validate(data, methods(), options, directory=folder / name, progress=print)
        write_results(result, folder / name, command="python -m benchmarks.every_model")
        print(f"\n{name}\n{markdown(summary(result))}\n")


if __name__ == "__main__":
    main()
