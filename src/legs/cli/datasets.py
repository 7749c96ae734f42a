"""``legs datasets``: the named data sets, and their statistics beside the paper's."""

from collections.abc import Mapping
from typing import Annotated, Any

from rich.filesize import decimal
from rich.text import Text
from typer import Argument, Exit, Option

from legs.cli.console import Console, make_table


def datasets(
    name: Annotated[str | None, Argument(metavar="NAME", help="Name or path of a set.")] = None,
    check: Annotated[bool, Option("--check", help="Compare with Table I of the paper.")] = False,
) -> None:
    """List the named data sets, where each was found, and its licence.

    With NAME, print statistics of one, beside Table I of the paper where they differ. With --check,
    compare NAME, or all 13 sets of the table, and fail if they differ.
    """
    from legs.data import describe, load, statistics

    console = Console()
    if name is None and not check:
        _list(console)
        return
    info: Mapping[str, Any] = {}
    with console.status(f"Preparing {name or 'the sets'}"):
        if check or name is None:
            compared = list(statistics.check([name] if name else ()))
        else:
            data = load(name)
            ours, info = describe(data), data.info
            compared = [(ours, statistics.compare(ours))]
    heads = ["CC" if quantity == "clustering" else quantity for quantity in statistics.PRINTED]
    lines, differences = list[list[Any]](), list[str]()
    for ours, rows in compared:
        values = {quantity: getattr(ours, quantity) for quantity in statistics.PRINTED}
        cells: dict[str, Any] = {
            q: f"{v:,}" if isinstance(v, int) else f"{v:,.2f}" for q, v in values.items()
        }
        for row in rows:
            if not row.agrees:
                cells[row.quantity] = Text(f"{cells[row.quantity]} ({row.printed})", style="red")
                numbers = f"{row.ours:.4f} here, {row.printed} in the paper"
                differences.append(f"{ours.name}, {row.quantity}: {numbers}")
        lines.append([ours.name, *cells.values(), f"{ours.connected:.1%}"])
    columns = ["set", *heads, "connected"]
    console.print(make_table(columns, lines, title="Means over graphs", padding=0))
    console.print("Edges: without self-loops. Diameter: of connected graphs. CC: clustering.")
    for line in differences:
        console.echo(line)
    for key in ("source", "licence", "note", "bad_rows"):
        if info.get(key):
            console.echo(f"{key}: {info[key]}")
    if check and differences:
        raise Exit(1)
    if check:
        console.print("All numbers agree to the printed digits.")


def _list(console: Console) -> None:
    from legs.data import available
    from legs.data.catalog import fetch

    rows = []
    for each in available():
        graphs = "" if each.graphs is None else f"{each.graphs:,}"
        size = "" if each.size is None else decimal(each.size)
        notes = "; ".join(filter(None, [each.licence, each.note]))
        rows.append((each.name, graphs, each.origin, size, notes))
    columns = ("set", "graphs", "found", "size", "licence; notes")
    table = make_table(columns, rows, text=columns[2::2], title="Data sets")
    for column in table.columns[:-1]:
        column.no_wrap = True
    console.print(table)
    console.print("Any other name of the TUDataset collection works too (cite Morris et al. 2020).")
    console.echo(f"{fetch.VARIABLE}: {fetch.data_dir() or 'not set'}")
    console.echo(f"cache: {fetch.cache_dir()}")
