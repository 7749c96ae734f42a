"""``legs predict``: predictions for new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from legs.cli.choices import Bad, Data, IdColumn, Model, OnError, SmilesColumn, counted


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
) -> None:
    """Predict for every row of a file: class probabilities, or numbers in their own units.

    With --on-error skip, rows that cannot be used keep their place and say why in the column
    "error". If the file has the target columns, the predictions are scored.
    """
    from rich.console import Console

    from legs.cli.progress import Rows
    from legs.cli.scores import score_table
    from legs.training import load_predictor
    from legs.training.predicting import predict_file
    from legs.training.runs import find_model

    console = Console(highlight=False)
    predictor = load_predictor(find_model(run))
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
        f"; {done.skipped:,} have no prediction (see the column error)" if done.skipped else ""
    )
    console.print(f"{counted(done.rows, 'row')} in {out}{skipped}", soft_wrap=True, markup=False)
    if done.scores:
        console.print(score_table({f"{counted(done.scored, 'row')} with targets": done.scores}))
    if done.strangers:
        names = ", ".join(done.strangers[:5])
        console.print(
            f"not scored: classes that the model does not know ({names})",
            soft_wrap=True,
            markup=False,
        )
