"""Learned scales and filters, as data for the page's slider."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from legs.report.blocks import Block, Card, Cards, Missing, Sliding, Spec, Words, numbers
from legs.report.drawings import graph_svg
from legs.report.folders import Run, Scales, Shown
from legs.report.molecules import molecule_svg
from legs.report.responses import filter_bank
from legs.report.wavelets import central_node, names_of, wavelets_around

STATES = 80
POINTS = 61
# A wavelet on more nodes is no picture.
LARGEST = 120


def scale_states(scales: Scales, best: int | None = None) -> Spec:
    """Everything that the slider shows, state by state.

    Args:
        scales: of a run.
        best: a state that must be there, by its label (default: none).

    Returns:
        ``labels`` of the states; ``weights`` ``[states, scales, steps]``; mean diffusion times
        ``expected`` ``[states, scales]``; ``frequency`` ``[points]``; ``responses``
        ``[states, filters, points]``; frame bounds ``lower`` and ``upper`` ``[states]``.
    """
    chosen = _thinned(len(scales.labels))
    if best in scales.labels:
        chosen = sorted({*chosen, scales.labels.index(best)})
    banks = [filter_bank(scales.weights[k], float(scales.laziness[k]), POINTS) for k in chosen]
    times = np.arange(1, scales.weights.shape[-1] + 1)
    return {
        "labels": [scales.labels[k] for k in chosen],
        "weights": numbers(scales.weights[chosen], 3),
        "expected": numbers(scales.weights[chosen] @ times, 4),
        "frequency": [numbers(bank.frequency, 3) for bank in banks],
        "responses": [numbers(bank.responses, 3) for bank in banks],
        "energy": [numbers(bank.energy, 3) for bank in banks],
        "lower": [numbers(bank.lower) for bank in banks],
        "upper": [numbers(bank.upper) for bank in banks],
        "names": banks[0].names,
    }


def scale_blocks(run: Run) -> list[Block]:
    """What the page says of a run's scales."""
    best = int(run.results.get("best_epoch") or 0)
    if run.scales is not None:
        states = scale_states(run.scales, best)
        labels = states["labels"]
        kept = "in the model that was kept (epoch {})"
        if run.results["settings"]["model"] in ENSEMBLES:
            # Epochs of the run are those of the common head, trained afterwards.
            best, kept = labels[-1], "at the end (epoch {})"
        start = min(range(len(labels)), key=lambda k: abs(labels[k] - best))
        told = moved_words(run.scales, labels[start], kept.format(labels[start]))
        found: list[Block] = [Words(told), Sliding("epoch", states, start)]
        place = int(np.argmin(np.abs(np.array(run.scales.labels) - best)))
        found += wavelet_blocks(
            run.shown, run.scales.weights[place], float(run.scales.laziness[place])
        )
        return found
    fixed = fixed_scales(run)
    if fixed is None:
        if run.results["settings"]["model"] in LEARNED:
            return [Missing(OLD.format("how the scales moved"))]
        return []
    states = scale_states(Scales([0], fixed[None], np.array([0.5])))
    return [
        Words(f"{SCALES} Here they are fixed: nothing about the filters was learned."),
        Sliding("", states, 0),
        *wavelet_blocks(run.shown, fixed, 0.5),
    ]


SCALES = (
    "The model lets the features of nodes spread along the edges, step by step, and compares what "
    "is there after few steps with what is there after many: each such difference is a filter Ψ "
    "that sees structure of one size. A scale is a number of steps, or a mixture of some."
)
ENSEMBLES = ("gcn-legs-fixed", "gcn-legs-fcn")
LEARNED = ("legs-fcn", "legs-rbf", "legs-attn-fcn", "mp-legs-fcn", "gcn-legs-fcn")
OLD = (
    "This run was written by an earlier version of torch-legs, which did not record {}. "
    "Train it again, in another folder, to see it here."
)


def moved_words(scales: Scales, epoch: int, when: str) -> str:
    """How far the scales went until an epoch, in a sentence; ``when`` says what that epoch is."""
    times = np.arange(1, scales.weights.shape[-1] + 1)
    means = scales.weights @ times
    place = int(np.argmin(np.abs(np.array(scales.labels) - epoch)))
    first = ", ".join(f"{value:.2f}" for value in means[0])
    last = ", ".join(f"{value:.2f}" for value in means[place])
    far = float(np.abs(means[place] - means[0]).max())
    verdict = "hardly moved" if far < 0.1 else "moved a little" if far < 1 else "moved"
    return (
        f"{SCALES} The scales {verdict} in training: their means began at {first} and are {last} "
        f"{when}. The largest change is {far:.2f} steps."
    )


def fixed_scales(run: Run) -> np.ndarray[tuple[int, int], np.dtype[np.float64]] | None:
    """The selection matrix of a model with fixed scales; ``None`` if it has none."""
    described = run.model.get("network", {}).get("description", {}).get("scattering")
    if not isinstance(described, dict) or not isinstance(described.get("scales"), list):
        return None
    found = np.zeros((len(described["scales"]), int(described["steps"])))
    found[np.arange(len(found)), np.array(described["scales"]) - 1] = 1
    return found


def wavelet_blocks(
    shown: Shown | None, weights: np.ndarray[tuple[int, ...], np.dtype[np.float64]], laziness: float
) -> list[Block]:
    """The filters on one of the graphs."""
    place = None if shown is None else _picture(shown)
    if shown is None or place is None:
        return []
    edges, nodes = shown.graph(place)
    centre = central_node(edges, nodes)
    found = wavelets_around(edges, nodes, weights, centre, laziness)
    cards = []
    ends = [0.0, *(weights @ np.arange(1, weights.shape[-1] + 1))]
    spans = [f"{a:.0f} to {b:.0f} steps" for a, b in pairwise(ends)]
    captions = [*spans, f"after {ends[-1]:.0f} steps"]
    for name, span, values in zip(names_of(len(found)), captions, found, strict=True):
        svg = molecule_svg(shown.smiles(place), values, (210, 150)) if shown.smiles(place) else None
        cards.append(Card(svg or graph_svg(edges, nodes, values, (210, 150)), f"{name}: {span}"))
    legend = [("plus", "positive"), ("minus", "negative")]
    node = "atom" if shown.smiles(place) else "node"
    return [
        Cards(
            f"The filters at work on {shown.name(place)}",
            cards,
            legend,
            small=True,
            words=f"A signal starts at one {node}. Ψ0 shows where it is lost and arrives within "
            "the first steps, the other Ψ farther out; Φ is what remains spread over all.",
        )
    ]


def _picture(shown: Shown) -> int | None:
    """A graph of a size that fits: not too small to see scales, not too large to draw."""
    fits = [
        place
        for place in range(len(shown))
        if 6 <= shown.graph(place)[1] <= LARGEST
        and len(shown.graph(place)[0])
        and (not shown.smiles(place) or (place < len(shown.aligned) and shown.aligned[place]))
    ]
    # Around the middle of what is there: typical, and large enough to see scales.
    return max(fits, key=lambda place: -abs(shown.graph(place)[1] - 22)) if fits else None


def _thinned(count: int) -> list[int]:
    if count <= STATES:
        return list(range(count))
    return sorted({round(k * (count - 1) / (STATES - 1)) for k in range(STATES)})
