"""Learnable geometric scattering for graphs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legs.models import LEGSNet
    from legs.nn import Moments, Scattering
    from legs.training import load

__version__ = "0.2.0.dev0"

__all__ = ["LEGSNet", "Moments", "Scattering", "__version__", "load"]

_HOMES = {
    "LEGSNet": "legs.models",
    "Moments": "legs.nn",
    "Scattering": "legs.nn",
    "load": "legs.training",
}


def __getattr__(name: str) -> Any:
    # Names are imported when first used: the command line must not wait seconds for PyTorch
    # before it can print its help.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'legs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
