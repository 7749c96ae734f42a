"""Speed and memory of scattering beside its reference, GCN and GIN, as ratios in one run."""

from benchmarks.speed.plan import GROUPS, Plan
from benchmarks.speed.running import Result, run

__all__ = ["GROUPS", "Plan", "Result", "run"]
