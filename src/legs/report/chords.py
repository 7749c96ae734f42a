"""Picture: exchanges between classes as a chord diagram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from legs.report.theme import ADVICE, NoPictures, Theme, ThemeName, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


def chord_figure(
    preferences: Floats, names: Sequence[str], theme: ThemeName | Theme = "light"
) -> Figure:
    """A chord diagram: the width of a ribbon is how often one class becomes another.

    Args:
        preferences: ``[classes, classes]``, not negative; the diagonal is left out.
        names: of the classes.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    import pandas as pd

    size = np.array(preferences, dtype=np.float64)
    np.fill_diagonal(size, 0)
    if not np.isfinite(size).all() or not size.sum() > 0:
        raise ValueError("a chord diagram needs finite numbers, and one of them above zero")
    with drawing(theme) as colors:
        try:
            from matplotlib import pyplot
            from pycirclize import Circos
        except ImportError as error:
            raise NoPictures(ADVICE) from error
        table = pd.DataFrame(size / size.sum() * 1000, index=list(names), columns=list(names))
        circos = Circos.chord_diagram(
            table,
            space=4,
            cmap={name: colors.color(k) for k, name in enumerate(names)},
            label_kws={"size": 11, "color": colors.ink},
            link_kws={"direction": 1, "lw": 0.3, "alpha": 0.7},
        )
        figure = circos.plotfig()
        figure.set_facecolor(colors.paper)
        pyplot.close(figure)  # the library draws with pyplot, which would keep it
    drawn: Figure = figure
    return drawn
