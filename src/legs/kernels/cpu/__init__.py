"""The fused operator on the CPU, compiled by numba, an extra (``pip install torch-legs[fast]``).

Kernels are compiled at the first call with new sizes, which takes some seconds; machine code is
cached on disk for later processes. The modules within import numba.
"""

from functools import cache
from importlib.util import find_spec


@cache
def available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None
