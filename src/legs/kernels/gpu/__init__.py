"""Kernels for NVIDIA GPUs in CUDA C, compiled at run time for the sizes of a call."""
