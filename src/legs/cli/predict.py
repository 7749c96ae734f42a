"""``legs predict``: predictions for new rows."""

from pathlib import Path
from typing import Annotated

from typer import Option

from legs.cli import options as opt
from legs.cli.console import Console, Rows, score_table
from legs.io import check_outputs


def predict(
    run: opt.Run,
    data: opt.Data,
    out: Annotated[Path, opt.output("OUT", "A .csv, .tsv or .parquet file.")],
    smiles_column: opt.SmilesColumn = None,
    id_column: opt.IdColumn = None,
    on_error: opt.OnError = "raise",
    device: opt.Device = "cpu",
    batch_size: Annotated[int, Option(min=1, help="Graphs per batch.")] = 512,
) -> None:
    """Predict every row of a file: class probabilities, or values in the units of the targets.

    With --on-error skip, a bad row stays in the output, with the reason in the column "error". If
    the file has the target columns, the predictions are scored.
    """
    from legs.inference.predict import predict_file
    from legs.report.words import few_words
    from legs.training import load_predictor
    from legs.training.runs import choose_device, find_model, run_files

    console = Console()
    if out.is_file():
        check_outputs([out], run_files(run))
    predictor = load_predictor(find_model(run)).to(choose_device(device))
    with Rows(console, f"{predictor.method}:") as progress:
        done = predict_file(
            predictor,
            data,
            out,
            on_error=on_error,
            smiles_column=smiles_column,
            id_column=id_column,
            batch_size=batch_size,
            report=progress,
        )
    skipped = ""
    if done.skipped:
        skipped = f"; {done.skipped:,} have no prediction: see the column error, or {done.bad_file}"
    console.echo(f"{opt.counted(done.rows, 'row')} in {out}{skipped}")
    if done.salts:
        console.echo(opt.describe_salts(done.salts))
    if done.scores:
        scores = {f"{opt.counted(done.scored, 'row')} with targets": done.scores}
        new = done.scored - (done.seen or 0)
        remarks = few_words(new, "there are" if new > 1 else "there is")
        if done.seen and done.unseen_scores:
            training = f"{done.seen:,} of {done.scored:,} rows were in the training data"
            remarks.insert(0, f"{training}; scores on the other {new:,}:")
            head = f"{opt.counted(new, 'row')} not in training data"
            scores = {head: done.unseen_scores, **scores}
        elif done.seen:
            training = f"all {done.scored:,} rows were in the training data"
            remarks = [f"{training}: the scores say nothing about new ones"]
        for line in remarks:
            console.echo(line)
        console.print(score_table(scores))
    if done.unscored:
        classes = predictor.task.kind == "classification"
        what = "classes that the model does not know" if classes else "not numbers"
        what = "not 0 or 1" if predictor.task.kind == "multilabel" else what
        console.echo(f"not scored: {what} ({', '.join(done.unscored[:5])})")
