"""``legs demo``: models of real molecules, end to end."""

import json
import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from legs.cli import options as opt
from legs.cli.console import Bar, Console, make_table
from legs.io import one_writer, write_atomically


def demo(
    output: Annotated[Path, opt.output("FOLDER", "Folder for the runs.")] = Path("legs-demo"),
    limit: Annotated[int | None, Option(min=50, help="Read only this many compounds.")] = None,
) -> None:
    """Predict ten properties of real molecules, with LEGS and other models.

    Reads the NCI compounds that come with RDKit, without a download, and trains learned and fixed
    scattering, a GCN and a baseline that ignores bonds: about two minutes on two cores. The same
    command resumes an interrupted run.
    """
    from legs.training.demo import FILE, MODELS, is_demo, run

    console = Console()
    with one_writer(output, is_demo), Bar(console, "Reading the compounds") as bar:

        def progress(model: str, epoch: int, epochs: int) -> None:
            completed = MODELS.index(model) * epochs + epoch
            bar.show(len(MODELS) * epochs, completed, [f"{model} epoch {epoch}/{epochs}"])

        data, fitted = run(output, limit, progress=progress)
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
