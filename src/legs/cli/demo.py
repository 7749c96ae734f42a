"""``legs demo``: models of real molecules, end to end."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Option

from legs.cli import options as opt
from legs.cli.console import Bar, Console, make_table
from legs.io import contents, has_keys, one_writer, write_atomically

# The networks of layers need few epochs; the others see the whole graph in one step.
EPOCHS = {"legs-deep": 15, "legs-fcn": 15, "gcn": 24, "baseline": 24}
FILE = "demo.json"


def demo(
    output: Annotated[Path, opt.output("FOLDER", "Folder for the runs.")] = Path("legs-demo"),
    limit: Annotated[int | None, Option(min=50, help="Read only this many compounds.")] = None,
) -> None:
    """Predict ten properties of real molecules, with LEGS and other models.

    Reads the NCI compounds that come with RDKit, without a download, and trains scattering in
    layers, learned scattering, a GCN and a baseline that ignores bonds: about a minute and a half
    on two cores. No model reads descriptors, which the properties are. The same command resumes an
    interrupted run.
    """
    # Imported here: torch and RDKit take seconds, and `legs --help` must not.
    from legs.data import load
    from legs.training import TrainingOptions, fit

    console = Console()
    # Enough to see who is ahead, few enough for two minutes on two cores.
    common = TrainingOptions(validate_every=3, patience=15, lr=3e-3)
    layers = replace(common, optimizer="adamw", weight_decay=1e-2, schedule="cosine")
    total = sum(EPOCHS.values())
    with one_writer(output, _is_demo), Bar(console, "Reading the compounds") as bar:
        data, fitted, done = load("nci-5k", limit=limit), {}, 0
        for model, epochs in EPOCHS.items():

            def show(row: dict[str, float], name: str = model, before: int = done) -> None:
                bar.show(total, before + row["epoch"], [f"{name} epoch {row['epoch']}"])

            options = replace(layers if model == "legs-deep" else common, max_epochs=epochs)
            fitted[model] = fit(data, model, options=options, directory=output / model, report=show)
            done += epochs
        command = {"command": opt.command_line()}  # for the page
        write_atomically(output / FILE, f"{json.dumps(command)}\n".encode())
    first = fitted["legs-deep"]
    console.print(
        f"{len(data):,} NCI compounds from RDKit's package ({data.info.get('bad_rows', 0):,} lines "
        f"skipped: not readable), {len(first.split.train):,} to train, "
        f"{len(first.split.test):,} to test"
    )
    columns = ("model", "parameters", "test MSE, standardized", "R²", "seconds")
    title = f"{len(data.target_names)} properties: {', '.join(data.target_names)}"
    rows = [("mean predictor", 0, first.scores["guess"], 0.0)]
    for model, each in fitted.items():
        rows.append((model, each.predictor.num_parameters(), each.scores["test"], each.seconds))
    cells = [
        (name, f"{size:,}", f"{s['whitened_mse']:.3f}", f"{s['r2']:.3f}", f"{seconds:.0f}")
        for name, size, s, seconds in rows
    ]
    console.print(make_table(columns, cells, title=title))
    console.echo(f"saved in   {output}: models, predictions and learning curves")
    console.echo(f"page       legs report {shlex.quote(str(output))}")
    console.echo("next       legs train molecules.csv --target activity -o my-run")
    console.echo("           legs predict my-run new-molecules.csv -o predictions.csv")


def _is_demo(folder: Path) -> bool:
    names = {path.name for path in contents(folder)}
    return names <= set(EPOCHS) or has_keys(folder / FILE, ("command",))
