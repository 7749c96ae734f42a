"""Training: one loop, every method, models that are kept."""

from legs.training.cv.cross_validation import cross_validate
from legs.training.cv.protocol import CVOptions
from legs.training.cv.results import CVResult
from legs.training.distributed import Group, joined
from legs.training.fit import Fitted, default_split, fit
from legs.training.loop import TrainingError
from legs.training.methods import methods
from legs.training.nodes import FittedNodes, fit_nodes
from legs.training.options import TrainingOptions
from legs.training.predictor import Predictor, load, load_predictor
from legs.training.task import Task

__all__ = [
    "CVOptions",
    "CVResult",
    "Fitted",
    "FittedNodes",
    "Group",
    "Predictor",
    "Task",
    "TrainingError",
    "TrainingOptions",
    "cross_validate",
    "default_split",
    "fit",
    "fit_nodes",
    "joined",
    "load",
    "load_predictor",
    "methods",
]
