"""How fast scattering is here: what ``legs bench`` measures, every figure as a ratio in one run."""

from benchmarks.speed.plan import FULL, GROUPS, QUICK, Plan, plan_of
from benchmarks.speed.running import Result, run

__all__ = ["FULL", "GROUPS", "QUICK", "Plan", "Result", "plan_of", "run"]
