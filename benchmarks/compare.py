"""Two versions of the library side by side: ``python -m benchmarks.compare OLD [--device cuda]``.

``OLD`` is the root of another checkout. Each round runs every case once per version, in fresh
processes; of each case, the shortest time counts. Ratios above 1: this version is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

MODELS = 90


def cases(device: str) -> dict[str, Callable[[], Any]]:
    """What is timed: names, and functions that build a step. Names of both versions only."""
    from legs import Scattering
    from legs import functional as fn
    from legs.kernels.csr import accelerated

    made = own("plain.py")["molecules"]

    def molecules(graphs: int) -> tuple[Tensor, ...]:
        return tuple(tensor.to(device) for tensor in made(graphs))

    def train_step(graphs: int, validate: bool = False) -> Callable[[], Any]:
        (x, edge_index, batch), module = molecules(graphs), Scattering(2, validate=validate)
        grad = torch.rand(graphs, module.to(device).out_channels, device=device)

        def step() -> None:
            out = module(x, edge_index, batch=batch, batch_size=graphs)
            torch.autograd.grad(out, module.selection.theta, grad)

        return step

    def many_models() -> Callable[[], Any]:
        (x, edge_index, batch), module = molecules(128), Scattering(2, validate=False).to(device)
        thetas = module.selection.theta.detach().expand(MODELS, -1, -1).clone()
        grad = torch.rand(MODELS, 128, module.out_channels, device=device)

        def one(theta: Tensor) -> Tensor:
            weights, arguments = {"selection.theta": theta}, (x, edge_index, None, batch, 128)
            return torch.func.functional_call(module, weights, arguments)

        def step() -> None:
            leaf = thetas.detach().requires_grad_()
            torch.autograd.grad(torch.func.vmap(one)(leaf), leaf, grad)

        return step

    def large_graph() -> Callable[[], Any]:
        nodes = 10**6
        one = torch.randint(nodes, (2, 5 * 10**6), generator=torch.Generator().manual_seed(0))
        edge_index = torch.cat([one, one.flip(0)], dim=1).to(device)
        x = torch.rand(nodes, 16, device=device)
        walk = fn.random_walk(edge_index, None, nodes, x.dtype)
        return lambda: fn.diffusions(x, accelerated(walk), 0.5, 16)

    return {
        "train step, 128 graphs, checks on": lambda: train_step(128, validate=True),
        "train step, 128 graphs": lambda: train_step(128),
        "train step, 4,110 graphs": lambda: train_step(4110),
        f"train step, 128 graphs, {MODELS} models": many_models,
        "16 steps, 10^7 edges, 16 channels": large_graph,
    }


def measure(device: str, only: str, seconds: float) -> dict[str, float]:
    """The shortest time of each case, in milliseconds."""
    times = {}
    timing, place = own("speed/timing.py"), torch.device(device)
    for name, build in cases(device).items():
        if only in name:
            step = build()
            if "10^7" not in name and "checks" not in name:
                step = timing["record"](step, place) or step
            timing["timed"](step, place)
            best, end = float("inf"), time.perf_counter() + seconds
            while time.perf_counter() < end:
                best = min(best, timing["timed"](step, place))
            times[name] = 1e3 * best
    return times


def own(file: str) -> dict[str, Any]:
    """A module of this version, whichever is timed."""
    return runpy.run_path(str(Path(__file__).parent / file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, nargs="?", help="root of the other checkout")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case and round")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    args = parser.parse_args()
    if args.old is None:
        torch.set_num_threads(args.threads)
        print(json.dumps(measure(args.device, args.only, args.seconds)))
        return
    best: dict[Path, dict[str, float]] = {args.old.resolve(): {}, Path(__file__).parents[1]: {}}
    options = [f"--{k}={getattr(args, k)}" for k in ("device", "threads", "seconds", "only")]
    for _ in range(args.rounds):
        for root in best:
            path = os.pathsep.join([str(root / "src"), str(root)])
            command = [sys.executable, "-P", str(Path(__file__).resolve()), *options]
            variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(args.threads)}
            printed = subprocess.check_output(command, env=variables, cwd=root)
            for name, value in json.loads(printed.splitlines()[-1]).items():
                best[root][name] = min(value, best[root].get(name, value))
    old, new = best.values()
    print("| case | old, ms | new, ms | times as fast |\n|---|---:|---:|---:|")
    for name, time_now in new.items():
        print(f"| {name} | {old[name]:.3f} | {time_now:.3f} | {old[name] / time_now:.2f} |")


if __name__ == "__main__":
    main()
