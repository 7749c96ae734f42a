"""Graphs in: named data sets, a user's own files, node features, splits, batches."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from legs.data.errors import BadRows, DataError

if TYPE_CHECKING:
    from legs.data.catalog.cache import load_dataset as load_dataset
    from legs.data.catalog.cache import save_dataset as save_dataset
    from legs.data.catalog.specs import available as available
    from legs.data.dataset import GraphBatch as GraphBatch
    from legs.data.dataset import GraphDataset as GraphDataset
    from legs.data.graphs import hypergraph as hypergraph
    from legs.data.graphs import point_graph as point_graph
    from legs.data.loading import load as load
    from legs.data.merge import Merged as Merged
    from legs.data.merge import merge_equivalent as merge_equivalent
    from legs.data.readers.base import Features as Features
    from legs.data.readers.base import RawGraphs as RawGraphs
    from legs.data.readers.objects import from_objects as from_objects
    from legs.data.statistics import describe as describe

_NAMES_OF = {
    "catalog.cache": ("load_dataset", "save_dataset"),
    "catalog.specs": ("available",),
    "dataset": ("GraphBatch", "GraphDataset"),
    "graphs": ("hypergraph", "point_graph"),
    "loading": ("load",),
    "merge": ("Merged", "merge_equivalent"),
    "readers.base": ("Features", "RawGraphs"),
    "readers.objects": ("from_objects",),
    "statistics": ("describe",),
}
__all__ = ["BadRows", "DataError", *(name for names in _NAMES_OF.values() for name in names)]


def __getattr__(name: str) -> Any:
    # Imported when first used: listing the sets must not wait seconds for PyTorch.
    if name == "merge_alike":
        warnings.warn("merge_alike is now merge_equivalent", DeprecationWarning, stacklevel=2)
        name = "merge_equivalent"
    for module, names in _NAMES_OF.items():
        if name in names:
            return getattr(import_module(f"legs.data.{module}"), name)
    raise AttributeError(f"module 'legs.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
