"""Where work runs: on this machine, or on a Ray cluster."""

from legs.engine.local import Engine, EngineError, LocalEngine, open_engine

__all__ = ["Engine", "EngineError", "LocalEngine", "open_engine"]
