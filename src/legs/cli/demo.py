"""``legs demo``: models of real molecules, end to end."""

import json
import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from legs.cli import options as opt
from legs.cli.console import Bar, Console, make_table
from legs.io import contents, has_keys, one_writer, write_atomically

MODELS = ("legs-fcn", "legs-fixed", "gcn", "baseline")
FILE = "demo.json"


def demo(
    output: Annotated[Path, opt.output("FOLDER", "Folder for the runs.")] = Path("legs-demo"),
    limit: Annotated[int | None, Option(min=50, help="Read only this many compounds.")] = None,
) -> None:
    """Predict ten properties of real molecules, with LEGS and other models.

    Reads the NCI compounds that come with RDKit, without a download, and trains learned and fixed
    scattering, a GCN and a baseline that ignores bonds: about two minutes on two cores. The same
    command resumes an interrupted run.
    """
    # Imported here: torch and RDKit take seconds, and `legs --help` must not.
    from legs.data import load
    from legs.training import TrainingOptions, fit

    console = Console()
    # Enough to see who is ahead, few enough for two minutes on two cores.
    options = TrainingOptions(max_epochs=30, validate_every=3, patience=15, lr=3e-3)
    total = len(MODELS) * options.max_epochs
    with one_writer(output, _is_demo), Bar(console, "Reading the compounds") as bar:
        # One-hot atom types, as the paper's molecules have them.
        data, fitted = load("nci-5k", features="atoms", limit=limit), {}
        for number, model in enumerate(MODELS):

            def show(row: dict[str, float], number: int = number, model: str = model) -> None:
                done = number * options.max_epochs + row["epoch"]
                bar.show(total, done, [f"{model} epoch {row['epoch']}/{options.max_epochs}"])

            fitted[model] = fit(data, model, options=options, directory=output / model, report=show)
        command = {"command": opt.command_line()}  # for the page
        write_atomically(output / FILE, f"{json.dumps(command)}\n".encode())
    first = fitted[MODELS[0]]
    console.print(
        f"{len(data):,} NCI compounds from RDKit's package ({data.info.get('bad_rows', 0):,} lines "
        f"skipped: not readable), {len(first.split.train):,} to train, "
        f"{len(first.split.test):,} to test"
    )
    columns = ("model", "parameters", "test MSE, standardized", "R²", "seconds")
    title = f"{len(data.target_names)} properties: {', '.join(data.target_names)}"
    table = make_table(*columns, title=title)
    rows = [("mean predictor", 0, first.scores["guess"], 0.0)]
    for model, each in fitted.items():
        rows.append((model, each.predictor.num_parameters(), each.scores["test"], each.seconds))
    for model, parameters, scores, seconds in rows:
        mse, r2 = (f"{scores[name]:.3f}" for name in ("whitened_mse", "r2"))
        table.add_row(model, f"{parameters:,}", mse, r2, f"{seconds:.0f}")
    console.print(table)
    console.echo(f"saved in   {output}: models, predictions and learning curves")
    console.echo(f"page       legs report {shlex.quote(str(output))}")
    console.echo("next       legs train molecules.csv --target activity -o my-run")
    console.echo("           legs predict my-run new-molecules.csv -o predictions.csv")


def _is_demo(folder: Path) -> bool:
    names = {path.name for path in contents(folder)}
    return names <= set(MODELS) or has_keys(folder / FILE, ("command",))
