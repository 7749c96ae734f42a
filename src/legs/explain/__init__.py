"""Which part of a graph mattered: a prediction shared out among nodes and scattering paths."""

from legs.explain.attributing import Attribution, attribute
from legs.explain.runs import explain_folder, explain_run

__all__ = ["Attribution", "attribute", "explain_folder", "explain_run"]
