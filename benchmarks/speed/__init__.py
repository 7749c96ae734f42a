"""Speed and memory of scattering beside its reference, GCN and GIN, as ratios in one run."""

from benchmarks.speed.cases import GROUPS, Plan, Result, run

__all__ = ["GROUPS", "Plan", "Result", "run"]
