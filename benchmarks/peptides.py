"""Peptides-func (LRGB): average precision of the networks, each with the same training.

``python -m benchmarks.peptides pack TABLE SPLIT FILE`` reads the molecules (needs RDKit) and writes
one compressed file; ``python -m benchmarks.peptides run FILE PLAN FOLDER`` trains every run of a
plan, a JSON list such as ``[{"network": "legs-deep", "seed": 0, "options": {"num_layers": 4}}]``,
and writes one JSON file per run; runs that have theirs are skipped. The epoch is chosen by the
validation molecules; the test molecules are scored at that epoch alone. ``python -m
benchmarks.peptides boost TABLE SPLIT FOLDER`` adds gradient boosting on count fingerprints, and
``python -m benchmarks.peptides page FOLDER`` writes the table of all results.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import platform
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot, pad

from legs.models import create
from legs.training.cv.results import markdown

TRAINING: dict[str, Any] = {"epochs": 200, "lr": 1e-3, "weight_decay": 0.0, "batch_size": 128}
WALK = 20  # steps of the random walk whose return probabilities are node features
WARMUP, CHECK_EVERY = 5, 5  # epochs
LIMIT = 500_000  # parameters, as in the published comparison


def pack(table: Path, split: Path, file: Path) -> None:
    """Writes atoms and bonds as categories, labels and parts."""
    from rdkit import Chem

    rows, parts = pd.read_csv(table), json.loads(split.read_text())[0]
    atoms, bonds, columns, sizes, degrees = [], [], [], [], []
    for smiles in rows["smiles"]:
        mol = Chem.MolFromSmiles(smiles)
        for a in mol.GetAtoms():
            shape = a.GetFormalCharge() + 4, a.GetTotalNumHs(), int(a.GetHybridization())
            kind = int(a.GetChiralTag()), int(a.GetIsAromatic()), int(a.IsInRing())
            atoms.append((a.GetAtomicNum(), a.GetTotalDegree(), *shape, *kind))
            around = sorted(a.GetBonds(), key=lambda bond: bond.GetOtherAtomIdx(a.GetIdx()))
            degrees.append(len(around))
            columns += [bond.GetOtherAtomIdx(a.GetIdx()) for bond in around]
            bonds += [
                (int(b.GetBondType()), int(b.GetStereo()), b.GetIsConjugated(), b.IsInRing())
                for b in around
            ]
        sizes.append(mol.GetNumAtoms())
    part = np.zeros(len(rows), np.uint8)
    for number, index in enumerate(parts.values()):  # train, validation, test
        part[index] = number
    np.savez_compressed(
        file,
        atoms=np.array(atoms, np.uint8),
        bonds=np.array(bonds, np.uint8),
        columns=np.array(columns, np.int16),
        sizes=np.array(sizes, np.int16),
        degrees=np.array(degrees, np.uint8),
        labels=np.array([ast.literal_eval(text) for text in rows["labels"]], np.uint8),
        part=part,
    )


class Molecules:
    """All molecules on a device; edges are sorted by their second node."""

    def __init__(self, file: Path, device: str) -> None:
        arrays = {k: torch.from_numpy(v.astype(np.int64)) for k, v in np.load(file).items()}
        sizes, degrees = arrays["sizes"], arrays["degrees"]
        self.ptr, rowptr = pad(sizes.cumsum(0), (1, 0)), pad(degrees.cumsum(0), (1, 0))
        self.edge_ptr = rowptr[self.ptr]
        target = torch.repeat_interleave(torch.arange(len(degrees)), degrees)
        graph = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        first = self.ptr[graph]  # of every node, the first node of its graph
        local = torch.stack([arrays["columns"], target - first[target]])
        self.local = local.to(device)
        walk = return_probabilities(self.ptr, target, local.to(device), WALK)
        self.x = torch.cat([_one_hot(arrays["atoms"]).to(device), walk], dim=1)
        self.edge_attr = _one_hot(arrays["bonds"]).to(device)
        self.y = arrays["labels"].float().to(device)
        self.parts = [(arrays["part"] == k).nonzero().flatten() for k in range(3)]

    def batch(self, index: Tensor) -> dict[str, Any]:
        """Arguments of a network, for the molecules ``index`` (on the host)."""
        node, graph = _ranges(self.ptr, index)
        edge, owner = _ranges(self.edge_ptr, index)
        sizes = self.ptr[index + 1] - self.ptr[index]
        shift = (sizes.cumsum(0) - sizes)[owner]
        node, graph, edge, shift = (t.to(self.y.device) for t in (node, graph, edge, shift))
        return {
            "x": self.x[node],
            "edge_index": self.local[:, edge] + shift,
            "batch": graph,
            "batch_size": len(index),
            "edge_attr": self.edge_attr[edge],
        }


def return_probabilities(ptr: Tensor, target: Tensor, local: Tensor, steps: int) -> Tensor:
    """Of a random walk after 2, 3, ... steps, ``[nodes, steps - 1]``.

    ``target`` (on the host) and ``local`` are the edges by node of all graphs, and of their own.
    """
    device, sizes = local.device, ptr.diff()
    out = torch.empty(int(ptr[-1]), steps - 1, device=device)
    edge_ptr = torch.searchsorted(target, ptr)
    for index in torch.argsort(sizes).split(256):
        size = int(sizes[index].max())
        edge, graph = (part.to(device) for part in _ranges(edge_ptr, index))
        node, owner = (part.to(device) for part in _ranges(ptr, index))
        walk = torch.zeros(len(index), size, size, device=device)
        walk[graph, local[1, edge], local[0, edge]] = 1
        walk /= walk.sum(-1, keepdim=True).clamp_min(1)
        power, place = walk, node - ptr[index].to(device)[owner]
        for k in range(steps - 1):
            power = power @ walk
            out[node, k] = power.diagonal(dim1=1, dim2=2)[owner, place]
    return out


def _one_hot(categories: Tensor) -> Tensor:
    """Side by side, for the values of each column."""
    columns = [torch.unique(column, return_inverse=True)[1] for column in categories.unbind(1)]
    return torch.cat([one_hot(column).float() for column in columns], dim=1)


def _ranges(ptr: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Positions from ``ptr[i]`` to ``ptr[i + 1]`` for each of ``index``, and the place of each."""
    begin, length = ptr[index], ptr[index + 1] - ptr[index]
    total, shift = int(length.sum()), begin - (length.cumsum(0) - length)
    place = torch.repeat_interleave(torch.arange(len(index)), length, output_size=total)
    return torch.arange(total) + shift[place], place


def train(data: Molecules, network: str, seed: int, options: Any, training: Any) -> dict[str, Any]:
    """Trains one network; returns its scores."""
    settings = {**TRAINING, **training}
    torch.manual_seed(seed)
    dims = {"edge_dim": data.edge_attr.shape[1], **options}
    model: Any = create(network, data.x.shape[1], data.y.shape[1], **dims)
    model.initialize(data.x.cpu())
    model.to(data.x.device)
    for module in model.modules():
        if hasattr(module, "is_sorted"):
            module.is_sorted, module.validate = True, False
            module.largest = int(data.ptr.diff().max())
    count, epochs = model.num_parameters(), settings["epochs"]
    if count > LIMIT:
        raise ValueError(f"{network} {options} has {count} parameters, more than {LIMIT}")
    rate = settings["lr"]
    decay, size = settings["weight_decay"], settings["batch_size"]
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay, fused=True)

    @torch.no_grad()
    def precision(part: Tensor) -> float:
        model.eval()
        out = torch.cat([model(**data.batch(index)) for index in part.split(512)]).cpu()
        return float(average_precision_score(data.y[part].cpu(), out, average="macro"))

    best, history, start = (-1.0, 0, 0.0), [], time.monotonic()
    for epoch in range(1, epochs + 1):
        share = (epoch - WARMUP) / (epochs + 1 - WARMUP)
        factor = epoch / WARMUP if share < 0 else 0.5 * (1 + math.cos(math.pi * share))
        optimizer.param_groups[0]["lr"] = rate * factor
        model.train()
        order = data.parts[0][torch.randperm(len(data.parts[0]))]
        for index in order[: len(order) // size * size].split(size):
            loss = binary_cross_entropy_with_logits(model(**data.batch(index)), data.y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % CHECK_EVERY == 0 or epoch == epochs:
            value = precision(data.parts[1])
            history.append((epoch, round(loss.item(), 4), round(value, 4)))
            print(network, seed, history[-1], f"{time.monotonic() - start:.0f} s", flush=True)
            if value > best[0]:
                best = value, epoch, precision(data.parts[2])
    return {
        "network": network,
        "seed": seed,
        "options": options,
        "training": settings,
        "parameters": count,
        "validation_ap": best[0],
        "test_ap": best[2],
        "epoch": best[1],
        "seconds": round(time.monotonic() - start, 1),
        "history": history,
        "machine": torch.cuda.get_device_name() if data.x.is_cuda else platform.machine(),
        "torch": torch.__version__,
        "date": str(date.today()),
    }


def run(file: Path, plan: Path, folder: Path) -> None:
    """Trains what has no result yet."""
    torch.set_float32_matmul_precision("high")
    data = Molecules(file, "cuda" if torch.cuda.is_available() else "cpu")
    for spec in json.loads(plan.read_text()):
        entry = {"seed": 0, "options": {}, "training": {}, **spec}
        name = hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:12]
        path = folder / f"{entry['network']}-{entry['seed']}-{name}.json"
        if not path.exists():
            path.write_text(json.dumps(train(data, **entry)) + "\n")
            print(path.read_text(), flush=True)


def boost(table: Path, split: Path, folder: Path) -> None:
    """Gradient boosting on Morgan counts of radius 2; its learning rate by validation molecules."""
    from rdkit import Chem
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows, parts = pd.read_csv(table), json.loads(split.read_text())[0]
    y = np.array([ast.literal_eval(text) for text in rows["labels"]])
    count = GetMorganGenerator(radius=2, fpSize=2048).GetCountFingerprintAsNumPy
    x = np.stack([count(Chem.MolFromSmiles(smiles)) for smiles in rows["smiles"]])
    x = x[:, x.any(0)].clip(0, 255).astype(np.uint8)
    train, validation, test = parts.values()
    best: dict[str, Any] = {"validation_ap": -1.0}
    for rate in (0.05, 0.1):
        start, scores = time.monotonic(), np.zeros(y.shape)
        options: Any = {"learning_rate": rate, "max_iter": 200, "early_stopping": False}
        for k, labels in enumerate(y.T):
            model = HistGradientBoostingClassifier(random_state=0, **options)
            scores[:, k] = model.fit(x[train], labels[train]).predict_proba(x)[:, 1]
        ap = [float(average_precision_score(y[p], scores[p])) for p in (validation, test)]
        seconds = round(time.monotonic() - start, 1)
        if ap[0] > best["validation_ap"]:
            best = {"validation_ap": ap[0], "test_ap": ap[1], "options": options}
            best["seconds"] = seconds
    names = {"network": "boosting", "seed": 0, "parameters": 0, "training": {}, "epoch": 0}
    where = {"machine": platform.machine(), "date": str(date.today())}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "boosting-0.json").write_text(json.dumps({**names, **best, **where}) + "\n")


def page(folder: Path) -> None:
    """Writes ``results.md``: mean and deviation over seeds, for each network and its options."""
    rows = pd.DataFrame([json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))])
    rows["settings"] = [
        json.dumps({**o, **t}) for o, t in zip(rows.options, rows.training, strict=True)
    ]
    lines, texts = [], []
    for (network, settings), group in rows.groupby(["network", "settings"]):
        line = {"network": network, "parameters": str(group.parameters.iloc[0] or "")}
        line["seeds"] = len(group)
        for name in ("validation AP", "test AP"):
            scores = group[name.lower().replace(" ", "_")]
            line[name] = f"{scores.mean():.4f} ± {scores.std(ddof=0):.4f}"
        lines.append({**line, "seconds per run": round(group.seconds.mean())})
        texts.append(f"- {network}: `{settings}`")
    words = "Macro average precision on the official split, mean ± standard deviation over seeds; "
    words += "the epoch is chosen by the validation molecules."
    end = "; ".join(", ".join(sorted(set(rows[name]))) for name in ("machine", "date"))
    end += ". Again with `python -m benchmarks.peptides`."
    table = markdown(pd.DataFrame(lines))
    text = ["# Peptides-func", "", words, "", table, "", *texts, "", end]
    (folder / "results.md").write_text("\n".join(text) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = {"pack": pack, "boost": boost, "page": page, "run": run}
    parser.add_argument("command", choices=list(commands))
    parser.add_argument("paths", type=Path, nargs="+")
    options = parser.parse_args()
    commands[options.command](*options.paths)


if __name__ == "__main__":
    main()
