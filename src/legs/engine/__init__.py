"""Where work is done: on this machine, or on a cluster of them, behind one small interface."""

from legs.engine.base import Engine, EngineError, open_engine
from legs.engine.local import LocalEngine

__all__ = ["Engine", "EngineError", "LocalEngine", "open_engine"]
