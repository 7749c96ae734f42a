"""``legs report``: one page that shows what a run learned."""

import csv
from importlib.resources import files
from pathlib import Path
from typing import Annotated, NamedTuple

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
        page = write_page(run, output, paper=paper_number)
        drawn = write_pictures(run) if pictures else []
    console.echo(f"page       {page} ({page.stat().st_size / 1e6:.1f} MB)")
    if drawn:
        console.echo(f"pictures   {len(drawn)} files in {drawn[0].parent}")


class Printed(NamedTuple):
    """A score of the paper; ``std`` is ``None`` where it prints none."""

    mean: float
    std: float | None


def paper_number(data: str, method: str) -> Printed | None:
    """The paper's score for a data set and a method: percent correct, or mean squared error.

    Affinities are left out: the paper does not say how it scaled them.

    >>> paper_number("MUTAG", "gcn")
    Printed(mean=79.3, std=9.66)
    >>> paper_number("my own file", "gcn") is None
    True
    """
    with (files("legs.data") / "paper_scores.csv").open(encoding="utf-8") as lines:
        rows = {row["data"]: row for row in csv.DictReader(lines)}
    mean, _, std = rows.get(data, {}).get(method, "").partition(" ± ")
    return Printed(float(mean), float(std) if std else None) if mean else None
