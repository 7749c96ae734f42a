"""``legs reproduce``: the paper's tables and figures, run from a clone of the repository."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from legs.cli import options as opt


def reproduce(
    names: Annotated[list[str] | None, Argument(metavar="NAME", help="Experiments to run.")] = None,
    quick: Annotated[bool, Option("--quick", help="Small but real: minutes on two cores.")] = False,
    datasets: Annotated[str, Option(metavar="NAMES", help="Only these, such as MUTAG,PTC.")] = "",
    models: Annotated[str, Option(metavar="NAMES", help="Only these, such as legs-fcn,gcn.")] = "",
    device: opt.Device = "auto",
    rotations: Annotated[int | None, Option(min=1, help="Train fewer models per test set.")] = None,
    seed: Annotated[int, Option(min=0, max=2**31 - 1, help="Seed of splits and training.")] = 0,
    output: Annotated[Path | None, opt.output("FOLDER", "Folder for the results.")] = None,
    minutes: Annotated[float | None, Option(min=0, help="Start no cell after this time.")] = None,
    reuse: Annotated[list[Path] | None, Option(help="Folder with finished cells to use.")] = None,
    at_once: Annotated[int, Option(min=1, help="Cells to run in parallel.")] = 1,
) -> None:
    """Run experiments of the paper and print their scores beside the paper's.

    Needs a clone of the repository; lists the experiments if none is named. Finished cells are
    skipped: the same command resumes after an interruption, and with --minutes 0 it only writes the
    tables again.
    """
    options = dict(locals())
    options |= {"names": names or [], "reuse": tuple(reuse or ())}
    for name in ("datasets", "models"):
        options[name] = tuple(filter(None, map(str.strip, options[name].split(","))))
    roots = (Path(__file__).parents[3], Path.cwd())
    root = next((r for r in roots if (r / "reproduction" / "experiments.yaml").is_file()), None)
    if root is None:
        raise ValueError("legs reproduce needs a clone of the repository; run it in one")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    import_module("reproduction.command").main(**options)
