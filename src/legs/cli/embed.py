"""``legs embed``: features of graphs as a table."""

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
    OnError,
    Settings,
    SmilesColumn,
    Symmetrize,
    counted,
    parse_settings,
)
from legs.cli.engines import Address, EngineName, EngineOption, check_address


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
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="A .parquet, .csv or .tsv file; or a folder, for Parquet in parts: computed on "
            "all cores, and going on after a stop.",
        ),
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
    symmetrize: Symmetrize = False,
    settings: Settings = None,
    device: DeviceOption = Device.cpu,
    engine: EngineOption = EngineName.local,
    address: Address = None,
) -> None:
    """Write features of graphs to a table with named columns: scattering, or a trained model's.

    Tables of molecules may be larger than memory. With --on-error skip, rows that cannot be used
    are listed in OUT.bad_rows.csv. A folder gets a row for each row of the input, without features
    where it cannot be used, and the list is OUT/_bad_rows.csv.
    """
    options = parse_settings(settings)
    check_address(engine, address)
    parts = not out.suffix
    if engine is EngineName.ray and not parts:
        raise ValueError(
            f"--engine ray writes a folder of Parquet files, not {out.name}; name a folder, such "
            f"as {out.with_suffix('')}"
        )
    from legs.cli.console import Console
    from legs.cli.progress import Rows
    from legs.engine import open_engine
    from legs.inference.embed import UNTRAINED, embed_file, open_embedder
    from legs.inference.shards import embed_folder
    from legs.io import check_outputs
    from legs.training.runs import choose_device, run_files

    console = Console(highlight=False)
    embedder = open_embedder(
        model,
        features=features,
        hydrogens=hydrogens,
        smiles_column=smiles_column,
        id_column=id_column,
        directed="symmetrize" if symmetrize else None,
        options=options,
        device=choose_device(device.value),
    )
    if model != UNTRAINED and out.is_file():
        check_outputs([out], run_files(model))
    with Rows(console, f"{model}:") as progress:
        if not parts:
            done = embed_file(embedder, data, out, on_error=on_error.value, report=progress)
        else:
            try:
                with open_engine(engine.value, address) as workers:
                    done = embed_folder(
                        embedder,
                        data,
                        out,
                        engine=workers,
                        on_error=on_error.value,
                        report=progress,
                    )
            except KeyboardInterrupt:
                typer.echo("legs: interrupted; the same command goes on from here", err=True)
                raise typer.Exit(130) from None
    console.print(
        f"{counted(done.rows, 'row')} in {out}: {'row, ' * parts}id and {done.columns:,} features",
        soft_wrap=True,
        markup=False,
    )
    if done.bad_file is not None:
        console.print(
            f"{counted(done.skipped, 'row')} {'without features' if parts else 'skipped'}, "
            f"listed in {done.bad_file}",
            soft_wrap=True,
            markup=False,
        )
