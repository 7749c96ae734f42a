"""``legs embed``: features of graphs as a table."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from legs.cli import options as opt
from legs.cli.console import Console, Rows
from legs.io import check_outputs


@opt.expand_options
def embed(
    model: Annotated[
        str, Argument(metavar="RUN", help="Run or model, or legs-fixed, which needs no training.")
    ],
    data: opt.Data,
    out: Annotated[
        Path, opt.output("OUT", "A .parquet, .csv or .tsv file, or a folder of Parquet files.")
    ],
    *,
    reading: opt.ReadingOptions,
    settings: opt.Settings = None,
    device: opt.Device = "cpu",
    engine: opt.Engine = "local",
    address: opt.Address = None,
) -> None:
    """Write features of graphs, by scattering or a trained model, to a table.

    Tables of molecules may be larger than memory. With --on-error skip, bad rows are listed in
    OUT.bad_rows.csv. --features, --descriptors, --fingerprint, --hydrogens and --set are for
    legs-fixed only.

    A folder gets Parquet files, computed on all cores; the same command resumes an interrupted run.
    Bad rows have no features there, and are listed in OUT/_bad_rows.csv.
    """
    options = opt.parse_settings(settings)
    opt.check_address(engine, address)
    parts = not out.suffix
    if engine == "ray" and not parts:
        raise opt.UsageError(
            f"--engine ray writes a folder of Parquet files, not {out.name}; name a folder, such "
            f"as {out.with_suffix('')}"
        )
    from legs.engine import open_engine
    from legs.inference.embed import UNTRAINED, embed_file, embed_folder, open_embedder
    from legs.training.runs import choose_device, run_files

    console = Console()
    arguments = reading.arguments()
    on_error = arguments.pop("on_error")
    embedder = open_embedder(model, **arguments, options=options, device=choose_device(device))
    if model != UNTRAINED and out.is_file():
        check_outputs([out], run_files(model))
    try:
        with Rows(console, f"{model}:") as progress:
            if parts:
                with open_engine(engine, address) as workers:
                    done = embed_folder(
                        embedder, data, out, engine=workers, on_error=on_error, report=progress
                    )
            else:
                done = embed_file(embedder, data, out, on_error=on_error, report=progress)
    except KeyboardInterrupt:
        raise opt.interrupted("resumes" if parts else "starts again") from None
    columns = f"{'row, ' * parts}id and {done.columns:,} features"
    console.echo(f"{opt.counted(done.rows, 'row')} in {out}: {columns}")
    if done.bad_file is not None:
        what = "without features" if parts else "skipped"
        console.echo(f"{opt.counted(done.skipped, 'row')} {what}, listed in {done.bad_file}")
