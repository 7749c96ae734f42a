"""``legs.Scattering`` against the dense eigendecomposition of ``tests/reference.py``.

The options are multiplied out; a difference counts from 1e-10 max(1, |f|) in float64 and from
1e-3 max(1, |f|) in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from legs import Moments, Scattering
from tests import reference as ref
from tests.strategies import (
    Batch,
    batches,
    collate,
    complete_pairs,
    from_pairs,
    path_pairs,
    ring_pairs,
    signals,
    star_pairs,
)

CHANNELS = 2
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-3}
# name: (scales, number of scales, steps, ordering)
BANKS = {
    "ordered": ("learned", 3, 7, "ordered"),
    "softmax": ("learned", 3, 7, "softmax"),
    "dyadic": ("dyadic", 3, None, "ordered"),
    "ints": ([2, 3, 7], 3, None, "ordered"),
}
# name: (laziness, learn_laziness)
WALKS = {
    "0.5": (0.5, False),
    "0.7": (0.7, False),
    "learned": (0.5, True),
    "channel": (0.5, "channel"),
}
# name: (kind, order)
AGGREGATIONS: dict[str, tuple[str | None, int]] = {
    **{f"normalized-{q}": ("normalized", q) for q in range(1, 5)},
    **{f"mean-{q}": ("mean", q) for q in (1, 4)},
    **{f"sum-{q}": ("sum", q) for q in range(1, 6)},
    "nodes": (None, 1),
}
LARGEST = {"normalized": 4, "mean": 4, "sum": 5}
MODULES = list(product(BANKS, range(4), ("increasing", "all"), (False, True), WALKS))


class Case(NamedTuple):
    """A batch with its signal and its dense weights."""

    batch: Batch
    x: Tensor
    weights: np.ndarray


@cache
def case(weighted: bool, batched: bool) -> Case:
    """Irregular graphs with a loop, a parallel edge and an isolated node; regular and tiny ones."""
    rng = np.random.default_rng(7)
    irregular = [*star_pairs(5), (1, 2), (1, 2), (3, 3), (4, 5), (5, 6)]
    families = [(8, irregular)]  # node 7 is isolated
    if batched:
        families += [(6, ring_pairs(6)), (1, []), (4, complete_pairs(4)), (5, path_pairs(5))]
    graphs = [
        from_pairs(n, pairs, rng.uniform(0.2, 5, len(pairs)).tolist() if weighted else None)
        for n, pairs in families
    ]
    batch = collate(graphs)
    x = torch.from_numpy(rng.normal(size=(batch.num_nodes, CHANNELS)))
    weights = ref.dense_weights(batch.num_nodes, batch.edge_index, batch.edge_weight)
    return Case(batch, x, weights)


@cache
def expected(
    bank: str,
    order: int,
    paths: str,
    lowpass: bool,
    walk: str,
    kind: str | None,
    weighted: bool,
    batched: bool,
) -> np.ndarray:
    """Reference features with as many moments as ever asked for; fewer are a slice of these."""
    data = case(weighted, batched)
    return ref.graph_features(
        data.weights,
        data.x.numpy(),
        data.batch.batch.numpy(),
        reference_rows(bank),
        reference_laziness(walk),
        ref.path_list(3, order, paths, lowpass),
        kind,
        LARGEST.get(str(kind), 1),
    )


@cache
def logits(bank: str) -> Tensor:
    """Peaks at 1, 3 and 6 under noise strong enough that both orderings have work to do."""
    noise = np.random.default_rng(len(bank)).normal(size=(3, 7))
    distance = np.abs(np.arange(1, 8)[None] - np.array([[1], [6], [3]]))
    return torch.from_numpy(2 * noise - distance)


def reference_rows(bank: str) -> np.ndarray:
    if bank in ("ordered", "softmax"):
        return ref.learned_rows(logits(bank).numpy(), bank)
    return ref.one_hot_rows({"dyadic": ref.dyadic(3), "ints": [2, 3, 7]}[bank])


def raw_laziness(walk: str) -> Tensor:
    return torch.tensor({"learned": -0.4, "channel": [-1.3, 0.8]}[walk], dtype=torch.float64)


def reference_laziness(walk: str) -> np.ndarray:
    if walk in ("learned", "channel"):
        return 0.5 + 0.5 / (1 + np.exp(-raw_laziness(walk).numpy()))
    return np.asarray(float(walk))


def build(
    bank: str, order: int, paths: str, lowpass: bool, walk: str, aggregation: str
) -> Scattering:
    """The module of these options in float64, its parameters moved away from where they start."""
    scales, num_scales, steps, ordering = BANKS[bank]
    laziness, learn_laziness = WALKS[walk]
    kind, moments = AGGREGATIONS[aggregation]
    module = Scattering(
        CHANNELS,
        scales=scales,
        num_scales=num_scales,
        steps=steps,
        order=order,
        path_policy=paths,
        lowpass=lowpass,
        ordering=ordering,
        laziness=laziness,
        learn_laziness=learn_laziness,
        aggr=None if kind is None else Moments(kind, order=moments),
    ).double()
    with torch.no_grad():
        if scales == "learned":
            module.selection.theta.copy_(logits(bank))
        if learn_laziness:
            module.walk.raw_laziness.copy_(raw_laziness(walk))
    return module


def evaluate(module: torch.nn.Module, data: Case, dtype: torch.dtype) -> np.ndarray:
    weight = data.batch.edge_weight
    with torch.no_grad():
        features = module(
            data.x.to(dtype),
            data.batch.edge_index,
            None if weight is None else weight.to(dtype),
            data.batch.batch if data.batch.num_graphs > 1 else None,
        )
    assert features.dtype == dtype
    return features.double().numpy()


def assert_close(found: np.ndarray, wanted: np.ndarray, dtype: torch.dtype) -> None:
    assert found.shape == wanted.shape
    excess = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
    assert excess.max(initial=0) <= TOLERANCE[dtype], (excess.max(), np.argwhere(excess > 1e-10))


@contextmanager
def one_thread() -> Iterator[None]:
    """Tiny tensors: threads only get in one another's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("bank", "order", "paths", "lowpass", "walk"), MODULES)
def test_product_of_options(bank: str, order: int, paths: str, lowpass: bool, walk: str) -> None:
    """Every combination, on weighted and unweighted graphs, alone and batched, both precisions."""
    with one_thread():
        for aggregation, (kind, moments) in AGGREGATIONS.items():
            module = build(bank, order, paths, lowpass, walk, aggregation)
            for dtype in (torch.float64, torch.float32):
                module = module.to(dtype)
                # the batch holds the single graph too: once is enough for the coarser precision
                alone = (False, True) if dtype == torch.float64 else (True,)
                for weighted, batched in product((False, True), alone):
                    data = case(weighted, batched)
                    found = evaluate(module, data, dtype)
                    assert found.shape[1] == module.out_channels
                    wanted = expected(bank, order, paths, lowpass, walk, kind, weighted, batched)
                    if kind is not None:
                        wanted = wanted.reshape(len(wanted), -1, LARGEST[kind])[..., :moments]
                        wanted = wanted.reshape(len(wanted), -1)
                    assert_close(found, wanted, dtype)


@pytest.mark.parametrize("lowpass", [False, True])
@pytest.mark.parametrize("paths", ["increasing", "all"])
@pytest.mark.parametrize("aggregation", ["normalized-3", "sum-5", "nodes"])
def test_columns_say_what_they_are(paths: str, lowpass: bool, aggregation: str) -> None:
    """Path-major, then channel, then moment, with distinct names."""
    module = build("ordered", 3, paths, lowpass, "0.5", aggregation)
    columns = module.columns()
    wanted = ref.path_list(3, 3, paths, lowpass)
    _, moments = AGGREGATIONS[aggregation]
    assert [(tuple(column.path), column.channel) for column in columns] == [
        (path, channel) for path in wanted for channel in range(CHANNELS) for _ in range(moments)
    ]
    assert len(columns) == module.out_channels
    assert len({column.name for column in columns}) == len(columns)


@pytest.mark.parametrize("aggr", ["moments", "max"])
def test_aggregation_by_name(aggr: str) -> None:
    """The default is four normalized moments; a name of PyG's aggregates x and |U_p x|."""
    module = Scattering(CHANNELS, scales="dyadic", lowpass=True, aggr=aggr).double()
    data = case(True, True)
    paths = ref.path_list(5, 2, "increasing", True)
    wanted = ref.graph_features(
        data.weights,
        data.x.numpy(),
        data.batch.batch.numpy(),
        ref.one_hot_rows([1, 2, 4, 8, 16]),
        0.5,
        paths,
        "normalized" if aggr == "moments" else aggr,
    )
    assert_close(evaluate(module, data, torch.float64), wanted, torch.float64)


@pytest.mark.parametrize("ordering", ["ordered", "softmax"])
def test_start(ordering: str) -> None:
    """Theta_jt = -2|t - t_j| at the dyadic scales; laziness from 0.55."""
    module = Scattering(CHANNELS, ordering=ordering, learn_laziness="channel", aggr=None).double()
    distance = np.abs(np.arange(1, 17)[None] - np.array([[1], [2], [4], [8], [16]]))
    rows = ref.learned_rows(-2.0 * distance, ordering)
    np.testing.assert_allclose(module.scale_weights().detach().numpy(), rows, atol=1e-6)
    raw = module.walk.raw_laziness.detach()
    assert raw.shape == (CHANNELS,)
    np.testing.assert_allclose(0.5 + 0.5 * raw.sigmoid().numpy(), 0.55, atol=1e-6)


@pytest.mark.parametrize(("num_scales", "steps"), [(1, 1), (4, 4), (8, 16), (7, 9), (16, 16)])
def test_start_with_many_scales(num_scales: int, steps: int) -> None:
    """Beyond log2(m) + 1 scales the peaks are distinct integers, J <= m."""
    module = Scattering(1, num_scales=num_scales, steps=steps, ordering="softmax")
    peaks = module.selection.theta.detach().argmax(dim=1).add(1).tolist()
    assert peaks == sorted(set(peaks))
    assert peaks[0] == 1


@settings(max_examples=60, deadline=None)
@given(data=st.data(), batch=batches(), ordering=st.sampled_from(["ordered", "softmax"]))
def test_any_batch(data: st.DataObject, batch: Batch, ordering: str) -> None:
    """Any graphs and signals: loops, parallel edges, isolated nodes, constant and one-hot."""
    x = data.draw(signals(batch.num_nodes, CHANNELS))
    module = Scattering(
        CHANNELS, num_scales=3, steps=7, order=2, path_policy="all", lowpass=True, ordering=ordering
    ).double()
    with torch.no_grad():
        module.selection.theta.copy_(logits(ordering))
        found = module(x, batch.edge_index, batch.edge_weight, batch.batch, batch.num_graphs)
    wanted = ref.graph_features(
        ref.dense_weights(batch.num_nodes, batch.edge_index, batch.edge_weight),
        x.numpy(),
        batch.batch.numpy(),
        reference_rows(ordering),
        0.5,
        ref.path_list(3, 2, "all", True),
        "normalized",
    )
    assert_close(found.numpy(), wanted, torch.float64)
