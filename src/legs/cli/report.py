"""``legs report``: one page that shows what a run learned."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from legs.cli import options as opt
from legs.cli.console import Console


def report(
    run: Annotated[Path, Argument(metavar="RUN", help="Folder of legs train, cv or demo.")],
    output: Annotated[Path | None, opt.output("FILE", "Page; default: RUN/report.html.")] = None,
    explain: Annotated[
        list[str] | None,
        Option(metavar="TARGET", help="Target to explain; can be repeated. Default: the best one."),
    ] = None,
    pictures: Annotated[
        bool, Option("--pictures", help="Also save figures as PNG and SVG.")
    ] = False,
) -> None:
    """Write an HTML page about a run, which opens without a network.

    It shows scores in plain words, learned scales over the epochs, filters, a map of the graphs,
    the best and worst predictions, which parts of graphs mattered, and how to reproduce the run.
    --explain is for regression; all classes are explained.
    """
    from legs.explain.runs import explain_folder
    from legs.report.page import page_file, write_page, write_pictures

    console = Console()
    page_file(run, output)
    with console.status(f"Explaining predictions of {run}"):
        explain_folder(run, explain or ())
    with console.status("Drawing the page"):
        page = write_page(run, output)
        drawn = write_pictures(run) if pictures else []
    console.echo(f"page       {page} ({page.stat().st_size / 1e6:.1f} MB)")
    if drawn:
        console.echo(f"pictures   {len(drawn)} files in {drawn[0].parent}")
