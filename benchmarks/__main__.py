from __future__ import annotations

import platform

import torch

from benchmarks import batching

if __name__ == "__main__":
    print(
        f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}; "
        "ratios within this run"
    )
    batching.main()
