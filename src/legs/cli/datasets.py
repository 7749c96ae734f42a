"""``legs datasets``: the named data sets, and their statistics beside the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rich.filesize import decimal
from rich.markup import escape
from typer import Argument, Exit, Option

from legs.cli.console import Console, make_table

if TYPE_CHECKING:
    from legs.data.statistics import Comparison

_LABELS = {
    "graphs": "(number of graphs)",
    "classes": "(number of classes)",
    "nodes": "nodes",
    "edges": "edges, without self-loops",
    "diameter": "diameter, of connected graphs",
    "clustering": "clustering coefficient",
    "connected": "(share of connected graphs)",
}


def datasets(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="Name or path of a data set.")
    ] = None,
    check: Annotated[bool, Option("--check", help="Compare with Table I of the paper.")] = False,
) -> None:
    """List the named data sets, where each was found, and its licence.

    With NAME, print statistics of one, beside Table I of the paper if it is listed there. With
    --check, compare NAME, or all 13 sets of the table, and fail if they differ.
    """
    console = Console()
    if check:
        _check(console, name)
    elif name is not None:
        _describe(console, name)
    else:
        _list(console)


def _list(console: Console) -> None:
    from legs.data import available
    from legs.data.catalog import fetch

    text = ("found", "licence; notes")
    table = make_table("set", "graphs", "found", "size", text[1], text=text, title="Data sets")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for each in available():
        graphs = "" if each.graphs is None else f"{each.graphs:,}"
        size = "" if each.size is None else decimal(each.size)
        notes = escape("; ".join(filter(None, [each.licence, each.note])))
        table.add_row(each.name, graphs, each.origin, size, notes)
    console.print(table)
    console.print("Any other name of the TUDataset collection works too (cite Morris et al. 2020).")
    console.echo(f"{fetch.VARIABLE}: {fetch.data_dir() or 'not set'}")
    console.echo(f"cache: {fetch.cache_dir()}")


def _describe(console: Console, name: str) -> None:
    from legs.data import describe, load
    from legs.data.statistics import compare

    with console.status(f"Preparing {name}"):
        dataset = load(name)
    ours = describe(dataset)
    paper = {row.quantity: row for row in compare(ours)}
    heads = ("here", "paper, Table I") if paper else ("here",)
    table = make_table("mean over graphs", *heads, title=escape(dataset.name))
    for quantity, label in _LABELS.items():
        value = getattr(ours, quantity)
        cells = [f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"]
        if row := paper.get(quantity):
            cells.append(row.printed if row.agrees else f"[red]{row.printed}[/]")
        table.add_row(label, *cells)
    console.print(table)
    for key in ("source", "licence", "note", "bad_rows"):
        if dataset.info.get(key):
            console.echo(f"{key}: {dataset.info[key]}")


def _check(console: Console, name: str | None) -> None:
    from legs.data.statistics import PRINTED, check

    def cell(row: Comparison) -> str:
        ours = f"{row.ours:.{len(row.printed.partition('.')[2])}f}"
        return ours if row.agrees else f"[red]{ours} ({row.printed})[/]"

    heads = ["CC" if quantity == "clustering" else quantity for quantity in PRINTED]
    title = "Here, and in Table I of the paper (in brackets) where it differs"
    table = make_table("set", *heads, "connected", title=title, padding=0)
    differences: list[str] = []
    with console.status("Preparing the sets"):
        for ours, rows in check([name] if name else ()):
            table.add_row(ours.name, *map(cell, rows), f"{ours.connected:.1%}")
            differences += [
                f"{ours.name}, {row.quantity}: {row.ours:.4f} here, {row.printed} in the paper"
                for row in rows
                if not row.agrees
            ]
    console.print(table)
    console.print("Edges: without self-loops. Diameter: of connected graphs. CC: clustering.")
    for line in differences:
        console.echo(line)
    if differences:
        raise Exit(1)
    console.print("All numbers agree to the printed digits.")
