"""Graphs in: named data sets, a user's own files, node features, splits, batches."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from legs.data.errors import BadRows, DataError

if TYPE_CHECKING:
    from legs.data.catalog.cache import load_dataset, save_dataset
    from legs.data.catalog.specs import available
    from legs.data.dataset import GraphBatch, GraphDataset
    from legs.data.loading import load
    from legs.data.merge import Merged, merge_alike
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
    "merge_alike",
    "save_dataset",
]

_HOMES = {
    "Features": "readers.base",
    "GraphBatch": "dataset",
    "GraphDataset": "dataset",
    "Merged": "merge",
    "RawGraphs": "readers.base",
    "available": "catalog.specs",
    "describe": "statistics",
    "from_objects": "readers.objects",
    "load": "loading",
    "load_dataset": "catalog.cache",
    "merge_alike": "merge",
    "save_dataset": "catalog.cache",
}


def __getattr__(name: str) -> Any:
    # Imported when first used: listing the sets must not wait seconds for PyTorch.
    if name in _HOMES:
        return getattr(import_module(f"legs.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'legs.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
