"""``legs predict``: predictions for new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from legs.cli.choices import (
    Bad,
    Data,
    Device,
    DeviceOption,
    IdColumn,
    Model,
    OnError,
    SmilesColumn,
    counted,
)


def predict(
    run: Model,
    data: Data,
    out: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="OUT", help="A .csv, .tsv or .parquet file."),
    ],
    on_error: Bad = OnError.stop,
    smiles_column: SmilesColumn = None,
    id_column: IdColumn = None,
    device: DeviceOption = Device.cpu,
) -> None:
    """Predict for every row of a file: class probabilities, or numbers in their own units.

    With --on-error skip, rows that cannot be used keep their place and say why in the column
    "error". If the file has the target columns, the predictions are scored.
    """
    from legs.cli.console import Console
    from legs.cli.progress import Rows
    from legs.cli.scores import score_table
    from legs.inference.predict import predict_file
    from legs.io import check_outputs
    from legs.report.words import few_words
    from legs.training import load_predictor
    from legs.training.runs import choose_device, find_model, run_files

    console = Console(highlight=False)
    if out.is_file():
        check_outputs([out], run_files(run))
    predictor = load_predictor(find_model(run)).to(choose_device(device.value))
    with Rows(console, f"{predictor.method}:") as progress:
        done = predict_file(
            predictor,
            data,
            out,
            on_error=on_error.value,
            smiles_column=smiles_column,
            id_column=id_column,
            report=progress,
        )
    skipped = (
        f"; {done.skipped:,} have no prediction: see the column error, or {done.bad_file}"
        if done.skipped
        else ""
    )
    console.print(f"{counted(done.rows, 'row')} in {out}{skipped}", soft_wrap=True, markup=False)
    if done.scores:
        scores = {f"{counted(done.scored, 'row')} with targets": done.scores}
        new = done.scored - (done.seen or 0)
        said = few_words(new, "there are" if new > 1 else "there is")
        if done.seen and done.unseen_scores:
            said.insert(
                0,
                f"{done.seen:,} of {done.scored:,} rows were in the training data; "
                f"scores on the other {new:,}:",
            )
            scores = {f"{counted(new, 'row')} not in training data": done.unseen_scores, **scores}
        elif done.seen:
            said = [
                f"all {done.scored:,} rows were in the training data: the scores say nothing about "
                "new ones"
            ]
        for line in said:
            console.print(line, soft_wrap=True, markup=False)
        console.print(score_table(scores))
    if done.unscored:
        names = ", ".join(done.unscored[:5])
        kind = predictor.task.kind
        what = "classes that the model does not know" if kind == "classification" else "no numbers"
        console.print(
            f"not scored: {what} ({names})",
            soft_wrap=True,
            markup=False,
        )
