"""The mathematics of :mod:`legs.functional`, fused: the same numbers, faster."""

from legs.kernels.op import use

__all__ = ["use"]
