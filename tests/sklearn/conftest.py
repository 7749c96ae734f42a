from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest


@pytest.fixture
def graphs() -> list[nx.Graph]:
    """Random graphs and trees of mixed sizes."""
    half = [nx.gnp_random_graph(8 + i, 0.4, seed=i) for i in range(15)]
    return half + [nx.barabasi_albert_graph(8 + i, 1, seed=i) for i in range(15)]


@pytest.fixture
def y() -> np.ndarray[Any, Any]:
    return np.repeat([0, 1], 15)
