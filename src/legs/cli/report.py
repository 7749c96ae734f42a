"""``legs report``: one page that shows what a run learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from legs.cli.console import Console
from legs.cli.paper import paper_number


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of legs train, legs cv or legs demo.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", show_default="RUN/report.html", help="HTML file."
        ),
    ] = None,
    explain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET",
            show_default="the best predicted",
            help="Regression target to explain; can be repeated. Classes are always explained.",
        ),
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Also write the figures as PNG and SVG.")
    ] = False,
) -> None:
    """Write one HTML page about a run; it opens from disk and needs no network.

    Scores in plain words, learned scales over the epochs, filters, a map of the graphs, the best
    and worst predictions, which parts of graphs mattered, and how to reproduce the run.
    """
    # Imported here: torch takes seconds, and `legs report --help` must not.
    from legs.explain.runs import explain_folder
    from legs.report.page import page_file, write_page, write_pictures

    console = Console()
    page_file(run, output)
    with console.status(f"Explaining predictions of {run}"):
        explain_folder(run, explain or ())
    with console.status("Drawing the page"):
        page = write_page(run, output, paper=paper_number)
        drawn = write_pictures(run) if pictures else []
    console.echo(f"page       {page} ({page.stat().st_size / 1e6:.1f} MB)")
    if drawn:
        console.echo(f"pictures   {len(drawn)} files in {drawn[0].parent}")
