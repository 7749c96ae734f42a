"""The mathematics of :mod:`legs.functional`, fused: the same numbers, faster."""

from legs.kernels.dispatch import chosen, path_of, use
from legs.kernels.large import diffusion_steps

__all__ = ["chosen", "diffusion_steps", "path_of", "use"]
