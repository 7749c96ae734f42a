"""Draws wavelets.png: the filters' frequency responses, and the wavelets on a molecule."""

from pathlib import Path

import matplotlib
import numpy as np
import torch
from rdkit import Chem
from rdkit.Chem import rdDepictor

from legs import Scattering
from legs.functional import filter_responses, random_walk, wavelet_transform

matplotlib.use("agg")
import matplotlib.pyplot as plt

# Salmeterol: 30 heavy atoms, a long chain between two rings.
SMILES = "OCc1cc(ccc1O)C(O)CNCCCCCCOCCCCc1ccccc1"
COLOURS = ["#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#999999"]


def main() -> None:
    molecule = Chem.MolFromSmiles(SMILES)
    rdDepictor.Compute2DCoords(molecule)
    places = molecule.GetConformer().GetPositions()[:, :2]
    # Lay the chain flat: its longest direction becomes horizontal.
    places = (places - places.mean(0)) @ np.linalg.svd(places - places.mean(0))[2].T
    bonds = np.array([[b.GetBeginAtomIdx(), b.GetEndAtomIdx()] for b in molecule.GetBonds()])
    edges = torch.from_numpy(np.concatenate([bonds, bonds[:, ::-1]]).T.copy()).long()

    bank = Scattering(1, scales="dyadic").selection()
    source = int(np.abs(places[:, 0]).argmin())
    impulse = torch.zeros(len(places), 1)
    impulse[source] = 1
    walk = random_walk(edges, None, len(places))
    wavelets = wavelet_transform(impulse, walk, 0.5, bank, lowpass=True).squeeze(-1).numpy()

    figure = plt.figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.25])
    axes = left.subplots()
    eigenvalues = torch.linspace(0, 1, 400)
    names = [rf"$\Psi_{j}$" for j in range(len(bank))] + [r"$\Phi_J$"]
    responses = filter_responses(bank, eigenvalues)
    for name, colour, response in zip(names, COLOURS, responses, strict=True):
        axes.plot(1 - eigenvalues, response, color=colour, label=name, linewidth=2)
    axes.plot(1 - eigenvalues, (responses**2).sum(0), "k:", linewidth=1, label="squares' sum ≤ 1")
    axes.set(xlabel="graph frequency  1 − λ", ylabel="response", xlim=(0, 1), ylim=(0, 1.03))
    axes.legend(frameon=False, ncols=2, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("band-pass filters from diffusion", fontsize=11)

    grid = right.subplots(len(wavelets), 1)
    right.suptitle("the same filters as wavelets around one atom (salmeterol)", fontsize=11)
    for axes, wavelet, name, colour in zip(grid, wavelets, names, COLOURS, strict=True):
        for a, b in bonds:
            axes.plot(*places[[a, b]].T, color="#cccccc", linewidth=1.2, zorder=1)
        size = np.abs(wavelet) / np.abs(wavelet).max()
        shade = np.where(wavelet > 0, "#B2182B", "#2166AC")
        axes.scatter(*places.T, s=4 + 90 * size, c=shade, zorder=2, linewidths=0)
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.text(places[:, 0].min() - 1.2, 0, name, ha="right", va="center", color=colour)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
