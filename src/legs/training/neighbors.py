"""Which training molecule is nearest to a new one, by Morgan fingerprints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.features.molecule_features import BINS, molecule_features

# Tensors of a saved model.
BITS, NAMES, LEAST = "neighbors.bits", "neighbors.names", "neighbors.least"
# Of the first models, which have no least similarity of their own: pairs of drug-like molecules
# taken at random are rarely more similar.
UNLIKE = 0.3
# Share of the training molecules that are less similar to all others, and how many are compared.
SHARE, SOME = 0.05, 2_000
_ROWS = 2_000  # training molecules compared at a time


class Neighbors(NamedTuple):
    """Fingerprints of the molecules that a model was trained on."""

    bits: NDArray[np.uint8]  # [molecules, BINS / 8], packed
    names: tuple[str, ...]  # ids, or SMILES where there are none
    least: float = UNLIKE  # similarity; below it, a molecule is unlike all training molecules

    @classmethod
    def of(cls, data: GraphDataset) -> Neighbors | None:
        """Those of a data set; ``None`` where the graphs are not molecules, or without RDKit."""
        if not (data.smiles and all(data.smiles)) or find_spec("rdkit") is None:
            return None
        names = data.ids if data.ids and data.info.get("id_column") else data.smiles
        near = cls(_fingerprints(data.smiles), tuple(names))
        some = np.random.default_rng(0).permutation(len(near.bits))[:SOME]
        similarity = near._nearest(near.bits[some], without=some)[0]
        return near._replace(least=float(np.quantile(similarity, SHARE).round(3)))

    def nearest(self, smiles: Sequence[str]) -> dict[str, Any]:
        """Columns for new molecules: ``nearest`` and its Tanimoto ``similarity``.

        ``unlike_training`` says whether it is less similar to all training molecules than 95 % of
        these are to the nearest other one.
        """
        best, place = self._nearest(_fingerprints(smiles))
        names = [self.names[k] for k in place.tolist()]
        unlike = best < self.least
        return {"nearest": names, "similarity": best.round(3), "unlike_training": unlike}

    def _nearest(
        self, bits: NDArray[np.uint8], without: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Similarity and number of the nearest, but for one training molecule of each row."""
        new = np.unpackbits(bits, axis=1).astype(np.float32)
        best, place = np.full(len(new), -1.0), np.zeros(len(new), dtype=np.int64)
        for start in range(0, len(self.bits), _ROWS):
            old = np.unpackbits(self.bits[start : start + _ROWS], axis=1).astype(np.float32)
            shared = new @ old.T
            union = new.sum(1)[:, None] + old.sum(1) - shared
            similarity = shared / np.maximum(union, 1)
            if without is not None:
                same = (without >= start) & (without < start + len(old))
                similarity[same, without[same] - start] = 0
            first = similarity.argmax(1)
            value = similarity[np.arange(len(new)), first]
            place = np.where(value > best, start + first, place)
            best = np.maximum(value, best)
        return best, place

    def tensors(self) -> dict[str, Tensor]:
        """As tensors, to be saved with a model."""
        text = bytearray(json.dumps(self.names).encode())
        names = torch.frombuffer(text, dtype=torch.uint8)
        return {BITS: torch.from_numpy(self.bits), NAMES: names, LEAST: torch.tensor(self.least)}

    @classmethod
    def take(cls, tensors: dict[str, Tensor]) -> Neighbors | None:
        """Back from :meth:`tensors`, which are removed; ``None`` if there are none."""
        bits, text = tensors.pop(BITS, None), tensors.pop(NAMES, None)
        least = float(tensors.pop(LEAST, torch.tensor(UNLIKE)))
        if bits is None or text is None:
            return None
        names = tuple(map(str, json.loads(text.numpy().tobytes())))
        if bits.dtype != torch.uint8 or bits.shape != (len(names), BINS // 8) or not names:
            raise ValueError("fingerprints and names of training molecules do not fit together")
        return cls(bits.numpy(), names, least)


def _fingerprints(smiles: Sequence[str]) -> NDArray[np.uint8]:
    return np.packbits(molecule_features(smiles, fingerprint="morgan") > 0, axis=1)
