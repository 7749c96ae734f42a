"""Molecules, drawn by RDKit: with a theme's colours for files, with classes for the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from legs.report.drawings import Drawing, clean_svg
from legs.report.theme import NoPictures, Theme, ThemeName, theme_of

Floats = npt.NDArray[np.float64]
ADVICE = "drawings of molecules need RDKit: pip install torch-legs[chem]"
# Highlights that the page gives its own colours; no atom of RDKit's palette has these.
PLUS, MINUS = (1.0, 0.5, 0.25), (0.25, 0.5, 1.0)
_NAMED = {"FF7F3F": "plus", "3F7FFF": "minus"}
_STROKE = re.compile(r"stroke:#([0-9A-Fa-f]{6})")
_FILL = re.compile(r"fill:#([0-9A-Fa-f]{6})")


def molecule_svg(
    smiles: str,
    values: Sequence[float] | Floats | None = None,
    size: tuple[int, int] = (260, 180),
    hydrogens: bool = False,
) -> str | None:
    """A molecule as a small SVG, coloured by the page's style sheet.

    Args:
        smiles: the molecule.
        values: one an atom; dots of class ``plus`` or ``minus``, as large as the value is
            (default: none).
        size: width and height.
        hydrogens: whether hydrogens are atoms that have values.

    Returns:
        ``None`` where RDKit is not installed, or cannot read the molecule, or it has another number
        of atoms than there are values.

    >>> "plus" in molecule_svg("CCO", [0.0, 0.0, 1.0])
    True
    """
    try:
        mol = read_molecule(smiles, hydrogens)
    except NoPictures:
        return None
    if mol is None or (values is not None and mol.GetNumAtoms() != len(values)):
        return None
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DSVG(*size)
    _options(canvas)
    marks = {} if values is None else _marks(np.asarray(values, dtype=np.float64))
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, mol, highlightBonds=[], **marks)
    canvas.FinishDrawing()
    return _compact(canvas.GetDrawingText(), size)


def molecule_panels(
    smiles: str,
    values: Floats,
    names: Sequence[str],
    theme: ThemeName | Theme = "light",
    size: tuple[int, int] = (280, 200),
    columns: int = 3,
) -> Drawing:
    """The same molecule several times, coloured by other values of its atoms each time.

    Args:
        smiles: the molecule.
        values: ``[panels, atoms]``.
        names: of the panels.
        theme: ``"light"`` (default) or ``"dark"``.
        size: of a panel.
        columns: panels in a row.
    """
    colors = theme_of(theme)
    values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    mol = read_molecule(smiles, False)
    if mol is None:
        raise ValueError(f"RDKit cannot read the molecule {smiles!r}")
    if mol.GetNumAtoms() != values.shape[1]:
        raise ValueError(f"{values.shape[1]} values for a molecule of {mol.GetNumAtoms()} atoms")
    from rdkit.Chem.Draw import rdMolDraw2D

    columns = min(columns, len(values))
    whole = size[0] * columns, size[1] * -(-len(values) // columns)
    marks = [_shaded(row, colors) for row in values]
    texts: list[Any] = []
    for kind in (rdMolDraw2D.MolDraw2DSVG, rdMolDraw2D.MolDraw2DCairo):
        canvas = kind(*whole, *size)
        _options(canvas)
        _paint(canvas, colors)
        ready = rdMolDraw2D.PrepareMolForDrawing(mol)
        canvas.DrawMolecules(
            [ready] * len(values),
            highlightAtoms=[list(mark) for mark in marks],
            highlightAtomColors=marks,
            highlightBonds=[[]] * len(values),
            legends=list(names),
        )
        canvas.FinishDrawing()
        texts.append(canvas.GetDrawingText())
    return Drawing(texts[0], texts[1])


def read_molecule(smiles: str, hydrogens: bool = False) -> Any:
    """RDKit's molecule of a SMILES; ``None`` if it cannot read it."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise NoPictures(ADVICE) from error
    with rdBase.BlockLogs():
        mol = None if "\0" in smiles else Chem.MolFromSmiles(smiles)
    return Chem.AddHs(mol) if mol is not None and hydrogens else mol


def _options(canvas: Any) -> None:
    options = canvas.drawOptions()
    options.clearBackground = False
    options.atomHighlightsAreCircles = True
    options.standardColoursForHighlightedAtoms = True
    options.padding = 0.04
    options.bondLineWidth = 1.4
    options.fixedBondLength = 30
    options.legendFontSize = 15


def _paint(canvas: Any, colors: Theme) -> None:
    from rdkit.Chem.Draw import rdMolDraw2D

    options = canvas.drawOptions()
    if colors.name == "dark":
        rdMolDraw2D.SetDarkMode(options)
    options.clearBackground = True
    options.setBackgroundColour(_rgb(colors.paper))
    options.setLegendColour(_rgb(colors.ink))


def _marks(values: Floats) -> dict[str, Any]:
    """What RDKit is to highlight: large values with large circles."""
    largest = float(np.abs(values).max(initial=0))
    if not largest > 0:
        return {}
    share = {k: float(v) / largest for k, v in enumerate(values) if abs(v) > 0.03 * largest}
    return {
        "highlightAtoms": list(share),
        "highlightAtomColors": {k: PLUS if v > 0 else MINUS for k, v in share.items()},
        "highlightAtomRadii": {k: 0.12 + 0.36 * abs(v) ** 0.5 for k, v in share.items()},
    }


def _shaded(values: Floats, colors: Theme) -> dict[int, tuple[float, float, float]]:
    largest = float(np.abs(values).max(initial=0))
    if not largest > 0:
        return {}
    try:
        shade = colors.colormap("diverging")
    except ImportError as error:
        raise NoPictures("pip install torch-legs[report]") from error
    found = {}
    for atom, value in enumerate(values / largest):
        red, green, blue, _ = shade(0.5 + 0.5 * float(value))
        found[atom] = (float(red), float(green), float(blue))
    return found


def _rgb(color: str) -> tuple[float, float, float]:
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue


def _compact(text: str, size: tuple[int, int]) -> str:
    """A tenth of RDKit's SVG: lines of a colour are one path, colours are classes."""
    root = ElementTree.fromstring(clean_svg(text))
    marks, lines, fills = [], {}, {}  # type: ignore[var-annotated]
    for shape in root:
        style = shape.get("style", "")
        if shape.tag in ("ellipse", "circle"):
            kind = _class(_FILL.search(style))
            at = f'cx="{shape.get("cx")}" cy="{shape.get("cy")}" r="{shape.get("rx")}"'
            marks.append(f'<circle class="{kind}" {at}/>')
        elif shape.tag == "path":
            path = re.sub(r"\s+", " ", shape.get("d", "").replace(",", " ")).strip()
            filled = _FILL.search(style) or re.match("#(.{6})", shape.get("fill", ""))
            if filled is not None:
                fills.setdefault(_class(filled), []).append(path)
            else:
                lines.setdefault(_class(_STROKE.search(style)), []).append(path)
    width, height = size
    parts = [f'<svg viewBox="0 0 {width} {height}" class="molecule">', *marks]
    parts += [f'<path class="line {kind}" d="{"".join(some)}"/>' for kind, some in lines.items()]
    parts += [f'<path class="{kind}" d="{"".join(some)}"/>' for kind, some in fills.items()]
    return "".join([*parts, "</svg>"])


def _class(found: re.Match[str] | None) -> str:
    color = "000000" if found is None else found[1].upper()
    return _NAMED.get(color, f"atom-{color.lower()}")
