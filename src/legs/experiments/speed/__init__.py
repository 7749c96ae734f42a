"""How fast scattering is here: what ``legs bench`` measures, every figure as a ratio in one run."""

from legs.experiments.speed.plan import FULL, GROUPS, QUICK, Plan, plan_of
from legs.experiments.speed.running import Result, run

__all__ = ["FULL", "GROUPS", "QUICK", "Plan", "Result", "plan_of", "run"]
