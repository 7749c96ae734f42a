"""Graphs in: named data sets, a user's own files, node features, splits, batches."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from legs.data.errors import BadRows, DataError

if TYPE_CHECKING:
    from legs.data.catalog.cache import load_dataset, save_dataset
    from legs.data.catalog.specs import available
    from legs.data.dataset import GraphBatch, GraphDataset
    from legs.data.loading import load
    from legs.data.merge import Merged, merge_equivalent
    from legs.data.readers.base import Features, RawGraphs
    from legs.data.readers.objects import from_objects
    from legs.data.statistics import describe

__all__ = [
    "BadRows",
    "DataError",
    "Features",
    "GraphBatch",
    "GraphDataset",
    "Merged",
    "RawGraphs",
    "available",
    "describe",
    "from_objects",
    "load",
    "load_dataset",
    "merge_equivalent",
    "save_dataset",
]

_NAMES_OF = {
    "catalog.cache": ("load_dataset", "save_dataset"),
    "catalog.specs": ("available",),
    "dataset": ("GraphBatch", "GraphDataset"),
    "loading": ("load",),
    "merge": ("Merged", "merge_equivalent"),
    "readers.base": ("Features", "RawGraphs"),
    "readers.objects": ("from_objects",),
    "statistics": ("describe",),
}


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
