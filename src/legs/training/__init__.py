"""Training: one loop, every method, models that are kept."""

from legs.training.fit import Fitted, default_split, fit
from legs.training.loop import TrainingError
from legs.training.methods import methods
from legs.training.nodes import FittedNodes, fit_nodes
from legs.training.options import TrainingOptions
from legs.training.predictor import Predictor, load, load_predictor
from legs.training.task import Task

__all__ = [
    "Fitted",
    "FittedNodes",
    "Predictor",
    "Task",
    "TrainingError",
    "TrainingOptions",
    "default_split",
    "fit",
    "fit_nodes",
    "load",
    "load_predictor",
    "methods",
]
