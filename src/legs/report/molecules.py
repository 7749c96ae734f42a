"""Molecules, drawn by RDKit: with a theme's colors for files, without colors for the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from legs.report.theme import Floats, NoPictures, ThemeName, theme_of

Color = tuple[float, float, float]
ADVICE = "drawings of molecules need RDKit: pip install torch-legs[chem]"
# Highlights to which the page gives its own colors.
PLUS, MINUS = (1.0, 0.5, 0.25), (0.25, 0.5, 1.0)
_CLASSES = {"fill:#FF7F3F": "plus", "fill:#3F7FFF": "minus"}


@dataclass(frozen=True)
class Drawing:
    """A drawing as file contents.

    Args:
        svg: the SVG file.
        png: the PNG file, empty if there is none.
    """

    svg: str
    png: bytes = b""

    def save(self, path: str | Path) -> list[Path]:
        """Saves it as SVG, and as PNG where there is one; ``path`` without suffix."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        contents = {".svg": self.svg.encode(), ".png": self.png}
        files = {path.with_name(path.name + end): data for end, data in contents.items() if data}
        for file, data in files.items():
            file.write_bytes(data)
        return list(files)


def molecule_svg(
    smiles: str,
    values: Sequence[float] | Floats | None = None,
    size: tuple[int, int] = (260, 180),
    hydrogens: bool = False,
) -> str | None:
    """A molecule as a small SVG, colored by the page; dots as in :func:`drawings.graph_svg`.

    ``None`` if RDKit is not installed or cannot read the molecule, or the molecule (with
    ``hydrogens``, if they are nodes) has another number of atoms than there are values.

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
    options = _options(canvas, clearBackground=False)
    options.useBWAtomPalette()
    marks = {} if values is None else _marks(np.asarray(values, dtype=np.float64), PLUS, MINUS)
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, mol, highlightBonds=[], **marks)
    canvas.FinishDrawing()
    return _compact(canvas.GetDrawingText(), size)


def molecule_panels(
    smiles: str,
    values: Floats,
    names: Sequence[str],
    theme: ThemeName = "light",
    size: tuple[int, int] = (280, 200),
) -> Drawing:
    """The same molecule several times, with dots for other values ``[panels, atoms]`` each time."""
    colors = theme_of(theme)
    values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    mol = read_molecule(smiles)
    if mol is None:
        raise ValueError(f"RDKit cannot read the molecule {smiles!r}")
    if mol.GetNumAtoms() != values.shape[1]:
        raise ValueError(f"{values.shape[1]} values for a molecule of {mol.GetNumAtoms()} atoms")
    from rdkit.Chem.Draw import rdMolDraw2D

    columns = min(3, len(values))
    whole = size[0] * columns, size[1] * -(-len(values) // columns)
    minus, plus = _rgb(colors.diverging[1]), _rgb(colors.diverging[3])
    marks = [_marks(row, plus, minus) for row in values]
    texts: list[Any] = []
    for kind in (rdMolDraw2D.MolDraw2DSVG, rdMolDraw2D.MolDraw2DCairo):
        canvas = kind(*whole, *size)
        options = _options(canvas)
        if colors.name == "dark":
            rdMolDraw2D.SetDarkMode(options)
        options.setBackgroundColour(_rgb(colors.paper))
        options.setLegendColour(_rgb(colors.ink))
        canvas.DrawMolecules(
            [rdMolDraw2D.PrepareMolForDrawing(mol)] * len(values),
            highlightBonds=[[]] * len(values),
            legends=list(names),
            **{name: [mark[name] for mark in marks] for name in marks[0]},
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


def _options(canvas: Any, **more: Any) -> Any:
    options = canvas.drawOptions()
    lengths = {"bondLineWidth": 1.4, "fixedBondLength": 30, "legendFontSize": 15, "padding": 0.04}
    circles = {"atomHighlightsAreCircles": True, "standardColoursForHighlightedAtoms": True}
    for name, value in {**lengths, **circles, **more}.items():
        setattr(options, name, value)
    return options


def _marks(values: Floats, plus: Color, minus: Color) -> dict[str, Any]:
    """What RDKit is to highlight: large values with large circles."""
    largest = float(np.abs(values).max(initial=0))
    share = {k: float(v) / largest for k, v in enumerate(values) if abs(v) > 0.03 * largest}
    return {
        "highlightAtoms": list(share),
        "highlightAtomColors": {k: plus if v > 0 else minus for k, v in share.items()},
        "highlightAtomRadii": {k: 0.12 + 0.36 * abs(v) ** 0.5 for k, v in share.items()},
    }


def _rgb(color: str) -> Color:
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue


def _compact(text: str, size: tuple[int, int]) -> str:
    """A tenth of RDKit's SVG: its circles, one path of lines and one of filled shapes.

    Only coordinates are taken over, so that no text from a file can become code on a page.
    """
    circles, lines, shapes = list[str](), list[str](), list[str]()
    for element in ElementTree.fromstring(text).iter():
        tag, style = str(element.tag).rpartition("}")[2], element.get("style", "")
        if tag in ("ellipse", "circle"):
            kind = _CLASSES.get(style.partition(";")[0], "node")
            x, y, r = (float(element.get(name, 0)) for name in ("cx", "cy", "rx"))
            circles.append(f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{r:g}"/>')
        elif tag == "path":
            path = " ".join(re.findall(r"[A-Za-z]|-?\d+\.?\d*", element.get("d", "")))
            (lines if "fill:none" in style else shapes).append(path)
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" class="molecule">{"".join(circles)}'
        f'<path class="line" d="{" ".join(lines)}"/><path d="{" ".join(shapes)}"/></svg>'
    )
