"""``legs embed``: features of graphs as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from legs.cli.choices import (
    Bad,
    Data,
    IdColumn,
    OnError,
    Settings,
    SmilesColumn,
    counted,
    parse_settings,
)


def embed(
    model: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Directory of a run or of a model; or legs-fixed: needs no training.",
        ),
    ],
    data: Data,
    out: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="OUT", help="A .parquet, .csv or .tsv file."),
    ],
    on_error: Bad = OnError.stop,
    smiles_column: SmilesColumn = None,
    id_column: IdColumn = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="BLOCKS",
            show_default="what suits the data",
            help="Node features (legs-fixed only), such as atoms or chem+structure.",
        ),
    ] = None,
    hydrogens: Annotated[
        bool, typer.Option("--hydrogens", help="Make hydrogens nodes (legs-fixed only).")
    ] = False,
    settings: Settings = None,
) -> None:
    """Write features of graphs to a table with named columns: scattering, or a trained model's.

    Tables of molecules may be larger than memory. With --on-error skip, rows that cannot be used
    are listed in OUT.bad_rows.csv.
    """
    options = parse_settings(settings)
    from rich.console import Console

    from legs.cli.progress import Rows
    from legs.training.embedding import embed_file, open_embedder

    console = Console(highlight=False)
    embedder = open_embedder(
        model,
        features=features,
        hydrogens=hydrogens,
        smiles_column=smiles_column,
        id_column=id_column,
        options=options,
    )
    with Rows(console, f"{model}:") as progress:
        done = embed_file(embedder, data, out, on_error=on_error.value, report=progress)
    console.print(
        f"{counted(done.rows, 'row')} in {out}: id and {done.columns:,} features",
        soft_wrap=True,
        markup=False,
    )
    if done.bad_file is not None:
        console.print(
            f"{counted(done.skipped, 'row')} skipped, listed in {done.bad_file}",
            soft_wrap=True,
            markup=False,
        )
