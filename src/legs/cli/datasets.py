"""``legs datasets``: the sets known by name, and their statistics beside the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from legs.cli.console import Console
    from legs.data.statistics import Comparison, Statistics


def datasets(
    name: Annotated[
        str | None, typer.Argument(help="A set by name or path; without one, all are listed.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the paper's 13 sets (or NAME) with Table I.")
    ] = False,
) -> None:
    """List the data sets known by name, where each was found, and what may be done with it.

    With NAME: its statistics, beside Table I of the paper if it is in there.
    """
    from legs.cli.console import Console

    console = Console(highlight=False)
    if check:
        _check(console, name)
    elif name is not None:
        _one(console, name)
    else:
        _all(console)


def _all(console: Console) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.filesize import decimal
    from rich.markup import escape
    from rich.table import Table

    from legs.data import available
    from legs.data.catalog import fetch

    table = Table(title="Data sets by name", box=SIMPLE_HEAD)
    table.add_column("set", no_wrap=True)
    table.add_column("graphs", justify="right")
    table.add_column("found", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("licence; what to know")
    for each in available():
        graphs = "" if each.graphs is None else f"{each.graphs:,}"
        size = "" if each.size is None else decimal(each.size)
        remarks = escape("; ".join(filter(None, [each.licence, each.note])))
        table.add_row(each.name, graphs, each.origin, size, remarks)
    console.print(table)
    console.print("Any other name of the TUDataset collection works too (cite Morris et al. 2020).")
    folder = fetch.data_dir() or "not set"
    console.print(f"{fetch.VARIABLE}: {folder}", soft_wrap=True, markup=False)
    console.print(f"cache: {fetch.cache_dir()}", soft_wrap=True, markup=False)


def _one(console: Console, name: str) -> None:
    from rich.markup import escape
    from rich.table import Table

    from legs.data import describe, load
    from legs.data.statistics import compare

    with console.status(f"Preparing {name}"):
        dataset = load(name)
    ours = describe(dataset)
    paper = {row.quantity: row for row in compare(ours)}
    table = Table(title=escape(dataset.name))
    table.add_column("mean over graphs")
    table.add_column("here", justify="right")
    if paper:
        table.add_column("paper, Table I", justify="right")
    for quantity, value in ours._asdict().items():
        if quantity != "name":
            row = paper.get(quantity)
            table.add_row(_LABELS[quantity], _number(value), _printed(row) if row else "")
    console.print(table)
    for key in ("source", "licence", "note", "bad_rows"):
        if dataset.info.get(key):
            console.print(f"{key}: {dataset.info[key]}", soft_wrap=True, markup=False)


def _check(console: Console, name: str | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from legs.data.statistics import PRINTED, check

    table = Table(
        title="Here, and in Table I of the paper (in brackets) where it differs",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=0,
    )
    table.add_column("set", no_wrap=True)
    for quantity in PRINTED:
        table.add_column("CC" if quantity == "clustering" else quantity, justify="right")
    table.add_column("connected", justify="right")
    explained: list[str] = []
    unexplained: list[str] = []
    with console.status("Preparing the sets"):
        for ours, rows in check([name] if name else ()):
            table.add_row(ours.name, *map(_cell, rows), f"{ours.connected:.1%}")
            for row in rows:
                if not row.agrees:
                    line = _difference(ours, row)
                    (explained if row.explanation else unexplained).append(line)
    console.print(table)
    console.print("Edges: without self-loops. Diameter: of connected graphs. CC: clustering.")
    for line in (*explained, *unexplained):
        console.print(line, soft_wrap=True, markup=False)
    if unexplained:
        raise typer.Exit(1)
    console.print(
        "All numbers agree to the printed digits" + (" or are explained." if explained else ".")
    )


_LABELS = {
    "graphs": "(number of graphs)",
    "classes": "(number of classes)",
    "nodes": "nodes",
    "edges": "edges, without self-loops",
    "diameter": "diameter, of connected graphs",
    "clustering": "clustering coefficient",
    "connected": "(share of connected graphs)",
}


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"


def _printed(row: Comparison) -> str:
    return row.printed if row.agrees else f"[red]{row.printed}[/]"


def _cell(row: Comparison) -> str:
    digits = len(row.printed.partition(".")[2])
    ours = f"{row.ours:.{digits}f}"
    return ours if row.agrees else f"[red]{ours} ({row.printed})[/]"


def _difference(ours: Statistics, row: Comparison) -> str:
    why = row.explanation or "no explanation is known"
    return f"{ours.name}, {row.quantity}: {row.ours:.4f} here, {row.printed} in the paper: {why}"
