"""Rounding must not show: renumbered graphs in float32, constants, tiny graphs."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from legs import Moments, Scattering
from tests import reference as ref
from tests.strategies import (
    RANDOM_FAMILIES,
    Batch,
    Graph,
    circulant_pairs,
    collate,
    complete_pairs,
    from_pairs,
    path_pairs,
    permuted,
    random_graph,
    ring_pairs,
    star_pairs,
)

Sample = tuple[Graph, Tensor]

MODULES = {
    "learned": {},
    "softmax, all paths, low-pass": {"ordering": "softmax", "path_policy": "all", "lowpass": True},
    "dyadic, laziness 0.7, low-pass": {"scales": "dyadic", "laziness": 0.7, "lowpass": True},
}
REGULAR = {
    "ring of 3": (3, ring_pairs(3)),
    "ring of 7": (7, ring_pairs(7)),
    "ring of 50": (50, ring_pairs(50)),
    "circulant": (11, circulant_pairs(11, [1, 3])),
    "complete": (6, complete_pairs(6)),
    "two nodes": (2, path_pairs(2)),
    "one node": (1, []),
    "no edges": (4, []),
}
DATASETS = ("MUTAG", "PTC_MR", "ENZYMES", "IMDB-BINARY", "PROTEINS", "NCI1")
AT_MOST = 600  # graphs of one data set


# Samples


def random_signal(rng: np.random.Generator, n: int) -> Tensor:
    """Two channels: noise, and one of the signals on which symmetric graphs are degenerate."""
    noise = rng.normal(size=n)
    other = [
        np.ones(n),
        np.eye(n)[rng.integers(n)],
        np.full(n, 0.3) + 1e-4 * rng.normal(size=n),
        100 + rng.normal(size=n),
        np.cos(2 * np.pi * np.arange(n) / n),
    ][int(rng.integers(5))]
    return torch.from_numpy(np.stack([noise, other], axis=1)).float()


def random_samples(count: int, families: Sequence[str] = RANDOM_FAMILIES) -> list[Sample]:
    rng = np.random.default_rng(11)
    found = [random_graph(rng, families) for _ in range(count)]
    return [(graph, random_signal(rng, graph.num_nodes)) for graph in found]


def node_signals(graph: Graph) -> Tensor:
    """Eccentricity within the component and clustering coefficient, as the paper feeds them."""
    # As int32: older versions of SciPy find paths with no other indices.
    n, (source, target) = graph.num_nodes, graph.edge_index.int().numpy()
    adjacency = coo_array((np.ones(source.size), (source, target)), shape=(n, n)).tocsr()
    adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    adjacency.data[:] = 1
    distance = shortest_path(adjacency, unweighted=True)
    eccentricity = np.where(np.isfinite(distance), distance, 0).max(axis=1)
    degree = np.asarray(adjacency.sum(axis=0)).ravel()
    triangles = np.asarray((adjacency @ adjacency * adjacency).sum(axis=1)).ravel()
    clustering = triangles / np.maximum(degree * (degree - 1), 1)
    return torch.from_numpy(np.stack([eccentricity, clustering], axis=1)).float()


def tu_graphs(archive: Path) -> Iterator[Graph]:
    """Graphs of a TU archive, straight from its two text files."""
    name = archive.stem
    with zipfile.ZipFile(archive) as files:
        with files.open(f"{name}/{name}_graph_indicator.txt") as text:
            owner = np.loadtxt(text, dtype=np.int64) - 1
        with files.open(f"{name}/{name}_A.txt") as text:
            edges = np.loadtxt(text, dtype=np.int64, delimiter=",").T - 1
    edges = np.unique(np.hstack([edges, edges[::-1]]), axis=1)
    edges = edges[:, np.argsort(owner[edges[0]], kind="stable")]
    count = owner.max() + 1
    nodes = np.searchsorted(owner, np.arange(count + 1))
    cuts = np.searchsorted(owner[edges[0]], np.arange(count + 1))
    for graph in range(min(count, AT_MOST)):
        own = edges[:, cuts[graph] : cuts[graph + 1]] - nodes[graph]
        yield Graph(int(nodes[graph + 1] - nodes[graph]), torch.from_numpy(own), None)


def data_archive(name: str) -> Path:
    folder = os.environ.get("LEGS_DATA")
    if folder is None:
        pytest.skip("LEGS_DATA is not set")
    archive = Path(folder) / "tu" / f"{name}.zip"
    if not archive.exists():
        pytest.skip(f"{archive} does not exist")
    return archive


# Renumbering


def run(module: Scattering, samples: list[Sample]) -> Tensor:
    """Features of many graphs; unweighted and weighted ones are batched apart."""
    rows: dict[int, Tensor] = {}
    for weighted in (False, True):
        own = [k for k, (graph, _) in enumerate(samples) if (graph[2] is not None) == weighted]
        for start in range(0, len(own), 128):
            some = own[start : start + 128]
            batch = collate([samples[k][0] for k in some])
            weight = None if batch.edge_weight is None else batch.edge_weight.float()
            x = torch.cat([samples[k][1] for k in some])
            with torch.no_grad():
                found = module(x, batch.edge_index, weight, batch.batch, batch.num_graphs)
            rows.update(zip(some, found, strict=True))
    return torch.stack([rows[k] for k in range(len(samples))])


def renumbered(samples: list[Sample], seed: int) -> list[Sample]:
    rng = np.random.default_rng(seed)
    changed = []
    for graph, x in samples:
        order = torch.from_numpy(rng.permutation(graph.num_nodes))
        edges = torch.from_numpy(rng.permutation(graph.edge_index.shape[1]))
        changed.append((permuted(graph, order, edges), x[order]))
    return changed


def assert_stable(module: Scattering, samples: list[Sample]) -> None:
    """No feature moves by more than 1e-3 max(1, |f|) when nodes and edges are renumbered."""
    here, there = run(module, samples), run(module, renumbered(samples, 3))
    assert here.dtype == torch.float32
    assert torch.isfinite(here).all()
    moved = (here - there).abs() / here.abs().clamp(min=1)
    sample, column = divmod(int(moved.argmax()), moved.shape[1])
    assert moved.max() <= 1e-3, (
        f"{moved.max():.2e} at {module.columns()[column]} of sample {sample}: "
        f"{here[sample, column]:.6g} became {there[sample, column]:.6g}"
    )


@pytest.mark.parametrize("options", MODULES.values(), ids=MODULES.keys())
def test_renumbered_random_graphs(options: dict) -> None:
    """1,000 graphs in float32, regular ones, constant and nearly constant signals among them."""
    assert_stable(Scattering(2, **options), random_samples(1000))


@pytest.mark.parametrize("options", MODULES.values(), ids=MODULES.keys())
def test_renumbered_stars(options: dict) -> None:
    """300 stars in float32, weighted and unweighted: a hub holds values of the size of sum |x|."""
    assert_stable(Scattering(2, **options), random_samples(300, ["star"]))


@pytest.mark.parametrize("options", MODULES.values(), ids=MODULES.keys())
@pytest.mark.parametrize("name", DATASETS)
def test_renumbered_real_graphs(name: str, options: dict) -> None:
    """The same on benchmark graphs with the paper's node signals."""
    found = list(tu_graphs(data_archive(name)))
    assert len(found) > 100
    assert_stable(Scattering(2, **options), [(graph, node_signals(graph)) for graph in found])


# Degenerate signals


def degenerate_signals(n: int) -> dict[str, Tensor]:
    return {
        "zero": torch.zeros(n, 2),
        "constant": torch.full((n, 2), 0.7),
        "negative constant": torch.full((n, 2), -1e3),
        "one-hot": torch.eye(n)[:, [0, n - 1]],
        "tiny": torch.full((n, 2), 1e-20),
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", MODULES.values(), ids=MODULES.keys())
@pytest.mark.parametrize("name", [*REGULAR, "star", "path"])
def test_nothing_is_nan(name: str, options: dict, weighted: bool) -> None:
    """Value and gradient in x, Theta, laziness and edge weights are finite in float32."""
    others = {"star": (6, star_pairs(6)), "path": (5, path_pairs(5))}
    n, pairs = {**REGULAR, **others}[name]
    graph = from_pairs(n, pairs, [1.5] * len(pairs))
    module = Scattering(2, learn_laziness="channel", **{**options, "laziness": 0.55})
    for label, signal in degenerate_signals(n).items():
        x = signal.clone().requires_grad_()
        weight = graph.edge_weight.float().requires_grad_() if weighted else None
        found = module(x, graph.edge_index, weight)
        assert torch.isfinite(found).all(), label
        module.zero_grad()
        # unequal factors, so that no two gradients can cancel
        (found * torch.linspace(0.5, 2, found.shape[1])).sum().backward()
        slopes = [x.grad, *[parameter.grad for parameter in module.parameters()]]
        slopes += [weight.grad] if weighted else []
        for slope in slopes:
            assert slope is not None
            assert torch.isfinite(slope).all(), label


@pytest.mark.parametrize("kind", ["mean", "sum"])
def test_nothing_is_nan_in_powers(kind: str) -> None:
    """|z|^q at z = 0 has a finite gradient for every q."""
    for n, pairs in REGULAR.values():
        graph = from_pairs(n, pairs)
        module = Scattering(2, aggr=Moments(kind, order=5))
        for label, signal in degenerate_signals(n).items():
            x = signal.clone().requires_grad_()
            found = module(x * 1e-3, graph.edge_index)
            assert torch.isfinite(found).all(), label
            found.sum().backward()
            assert torch.isfinite(x.grad).all(), label


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", REGULAR)
def test_wavelets_of_constants_vanish(name: str, dtype: torch.dtype) -> None:
    """Exactly zero for constant signals on regular graphs."""
    n, pairs = REGULAR[name]
    for options in MODULES.values():
        module = Scattering(1, aggr=None, **options).to(dtype)
        wavelets = [k for k, c in enumerate(module.columns()) if len(c.path) > 0 and c.path[0] < 5]
        x = torch.full((n, 1), 0.7, dtype=dtype)
        with torch.no_grad():
            features = module(x, from_pairs(n, pairs).edge_index)
        assert (features[:, wavelets] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", REGULAR)
def test_shape_of_constants_is_zero(name: str, dtype: torch.dtype) -> None:
    """Skewness and kurtosis of constants are exactly 0, with zero gradient."""
    n, pairs = REGULAR[name]
    graph = from_pairs(n, pairs)
    for options in MODULES.values():
        module = Scattering(1, **options).to(dtype)
        x = torch.full((n, 1), 0.7, dtype=dtype, requires_grad=True)
        found = module(x, graph.edge_index).reshape(-1, 4)
        assert (found[:, 2:] == 0).all()
        found[:, 2:].sum().backward()
        assert (x.grad == 0).all()


# Agreement with scipy where the variance is not small


def test_shape_is_scipys() -> None:
    """Skewness and kurtosis are scipy's wherever the variance is at least 4 delta."""
    module = Scattering(2, lowpass=True).double()
    nodes = Scattering(2, lowpass=True, aggr=None).double()
    compared = below = 0
    for graph, signal in random_samples(150):
        if graph.num_nodes < 2:
            continue
        x = signal.double()
        with torch.no_grad():
            found = module(x, graph.edge_index, graph.edge_weight).reshape(-1, 4).numpy()
            z = nodes(x, graph.edge_index, graph.edge_weight).numpy()
        columns = nodes.columns()
        # order 0 is the signal itself, all others are aggregated as absolute values
        signed = np.array([len(column.path) == 0 for column in columns])
        channel = np.array([column.channel for column in columns])
        z = np.where(signed, z, np.abs(z))
        weights = ref.dense_weights(graph.num_nodes, graph.edge_index, graph.edge_weight)
        floor = ref.variance_floor(weights, x.numpy())[channel]
        large = z.var(axis=0) >= 4 * floor * (1 + 1e-6)
        compared, below = compared + large.sum(), below + (~large).sum()
        skewness = scipy.stats.skew(z[:, large], axis=0)
        kurtosis = scipy.stats.kurtosis(z[:, large], axis=0)
        for value, wanted in ((found[large, 2], skewness), (found[large, 3], kurtosis)):
            assert (np.abs(value - wanted) <= 1e-9 * np.maximum(1, np.abs(wanted))).all()
    assert compared > 1000
    assert below > 100


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0, 1.5, 2.5, 3.9, 4.0, 4.1, 100.0])
def test_fading_of_shape(ratio: float) -> None:
    """Nothing below delta, scipy's value from 4 delta, and in between the polynomial."""
    z = np.random.default_rng(8).gamma(2.0, size=12)
    z = (z - z.mean()) / z.std()
    # a signal of mean 1 whose variance is ratio * delta; on a regular graph e = 2 mean x^2
    scale = np.sqrt(ratio * 2e-6 / (1 - ratio * 2e-6))
    x = 1 + scale * z
    module = Scattering(1, order=0).double()
    found = module(torch.from_numpy(x)[:, None], from_pairs(12, ring_pairs(12)).edge_index)
    r = np.clip((ratio - 1) / 3, 0, 1)
    gate = r**3 * (10 - 15 * r + 6 * r**2)
    wanted = [1, scale**2, gate * scipy.stats.skew(z), gate * scipy.stats.kurtosis(z)]
    np.testing.assert_allclose(found[0].detach().numpy(), wanted, rtol=0, atol=1e-9)


def test_batch_mates_do_not_matter() -> None:
    """A graph has the same features whoever shares its batch, to float32's rounding."""
    samples = [sample for sample in random_samples(60) if sample[0].edge_weight is None]
    module = Scattering(2)
    together = run(module, samples)
    for k, (graph, x) in enumerate(samples):
        batch: Batch = collate([graph])
        with torch.no_grad():
            alone = module(x, batch.edge_index)[0]
        assert ((alone - together[k]).abs() <= 1e-3 * alone.abs().clamp(min=1)).all()
