import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from torch.func import grad, vmap

from legs import functional as fn
from legs.functional import sparse
from legs.functional.sparse import build_pattern, spmm
from legs.kernels import cuda, large, use
from legs.nn import Scattering
from tests import strategies

pytest.importorskip("numba", reason="the CPU kernels need numba")

from legs.kernels import cpu_csr

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not cuda.available(), reason="needs a GPU")),
]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def counted(monkeypatch):
    """The products of this package, registered, and how often one was given."""
    given = []

    def product(*inputs):
        found = large.product(*inputs)
        given.append(found is not None)
        return found

    monkeypatch.setattr(sparse, "products", {"cpu": product, "cuda": product})
    return given


def example(rows=40, columns=30, entries=300, dtype=torch.float64, device="cpu"):
    """A matrix with parallel entries, an empty first, last and inner row, and one full row."""
    row = torch.randint(1, rows - 1, (entries,))
    row[row == rows // 2] = 1
    row[: entries // 3] = 2
    col = torch.randint(columns, (entries,))
    pattern, _ = build_pattern(row.to(device), col.to(device), rows, columns)
    values = torch.randn(entries, dtype=dtype, device=device) / 10
    dense = values.new_zeros(rows, columns)
    dense.index_put_((pattern.row, pattern.col), values, accumulate=True)
    return pattern, values, dense


def ring_and_more(nodes=200, dtype=torch.float64, device="cpu"):
    """The walk on a ring with chords, a hub, and two nodes without neighbours."""
    pairs = [(i, (i + 1) % (nodes - 2)) for i in range(nodes - 2)]
    pairs += [(0, i) for i in range(2, nodes - 2, 3)]
    graph = strategies.from_pairs(nodes, pairs, torch.rand(len(pairs)).add(0.1).tolist())
    return fn.random_walk(graph.edge_index.to(device), graph.edge_weight.to(device), nodes, dtype)


def close(found, expected):
    most = TOLERANCE[expected.dtype]
    torch.testing.assert_close(found, expected, rtol=most, atol=most)


@pytest.mark.parametrize(
    ("dtype", "index", "ahead"),
    [
        (torch.float32, torch.int32, True),
        (torch.float32, torch.int64, False),
        (torch.float64, torch.int64, True),
    ],
)
@pytest.mark.parametrize("channels", [1, 3, 7, 16, 20, 63, 65, 200])
def test_step_against_dense(channels, dtype, index, ahead, monkeypatch):
    monkeypatch.setattr(cpu_csr, "SMALL", 0 if ahead else 2**60)
    pattern, values, dense = example(dtype=dtype)
    x = torch.randn(30, channels, dtype=dtype)
    col = pattern.col.to(index)
    close(cpu_csr.step(pattern.rowptr, col, values, x), dense @ x)
    close(cpu_csr.step(pattern.rowptr, col, values, x, move=-0.25), -0.25 * dense @ x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_step_keeps_a_share(dtype):
    pattern, values, dense = example(rows=30, dtype=dtype)
    x = torch.randn(30, 5, dtype=dtype)
    out = torch.full_like(x, torch.nan)
    found = cpu_csr.step(pattern.rowptr, pattern.col, values, x, 0.3, 0.7, out=out)
    assert found is out
    close(out, 0.3 * x + 0.7 * dense @ x)


@pytest.mark.parametrize("channels", [3, 16])
def test_any_number_of_threads_gives_the_same_bits(channels, threads, monkeypatch):
    monkeypatch.setattr(cpu_csr, "WORK_OF_A_THREAD", 1)
    parts = []
    run = cpu_csr.cpu_threads.run
    monkeypatch.setattr(
        cpu_csr.cpu_threads, "run", lambda calls: parts.append(len(calls)) or run(calls)
    )
    pattern, values, _ = example(rows=1000, columns=1000, entries=9000, dtype=torch.float32)
    x = torch.randn(1000, channels)
    found = []
    for count in (1, 2, 2, 5):
        threads(count)
        found.append(cpu_csr.step(pattern.rowptr, pattern.col, values, x, 0.5, 0.5))
    assert parts[:3] == [1, 2, 2] and parts[3] > 2
    assert all(torch.equal(found[0], other) for other in found[1:])


def test_asking_ahead_changes_no_bit(monkeypatch):
    pattern, values, _ = example(rows=500, columns=400, entries=5000, dtype=torch.float32)
    x = torch.randn(400, 36)
    plain = cpu_csr.step(pattern.rowptr, pattern.col, values, x)
    monkeypatch.setattr(cpu_csr, "SMALL", 0)
    assert cpu_csr.block_of(36, x.dtype, True) != cpu_csr.block_of(36, x.dtype, False)
    assert torch.equal(cpu_csr.step(pattern.rowptr, pattern.col, values, x), plain)


@pytest.mark.parametrize(("rows", "columns", "channels"), [(0, 3, 2), (3, 2, 0), (4, 3, 2)])
def test_step_without_entries(rows, columns, channels):
    nothing = torch.zeros(0, dtype=torch.int64)
    x = torch.ones(columns, channels)
    found = cpu_csr.step(torch.zeros(rows + 1, dtype=torch.int64), nothing, torch.zeros(0), x)
    assert torch.equal(found, torch.zeros(rows, channels))


def test_blocks_never_reach_beyond_the_channels():
    for dtype in (torch.float32, torch.float64):
        for channels in range(1, 400):
            block = cpu_csr.block_of(channels, dtype)
            assert 1 <= block.width <= channels and block.parts <= cpu_csr.MOST_LINES
            assert channels < 2 * cpu_csr.LINE or block.width > cpu_csr.LINE // dtype.itemsize


def test_large_rooms_start_a_line():
    room = cpu_csr.room_for(2**16, 17, torch.float32)
    assert room.shape == (2**16, 17) and room.dtype == torch.float32 and room.is_contiguous()
    assert room.data_ptr() % cpu_csr.LINE == 0
    assert room.fill_(1.0).sum() == 2**16 * 17


def test_step_tells_what_is_wrong():
    pattern, values, _ = example(rows=30)
    x = torch.randn(30, 2, dtype=torch.float64)
    graph = pattern.rowptr, pattern.col
    with pytest.raises(ValueError, match="out must not be x"):
        cpu_csr.step(*graph, values, x, out=x)
    with pytest.raises(ValueError, match="must have 30 rows"):
        cpu_csr.step(*graph, values, torch.cat([x, x]), keep=0.5)
    with pytest.raises(ValueError, match=r"value must be torch\.float64"):
        cpu_csr.step(*graph, values.float(), x)
    with pytest.raises(ValueError, match="float32 or float64"):
        cpu_csr.step(*graph, values, x.half())
    with pytest.raises(ValueError, match="col int32 or int64"):
        cpu_csr.step(pattern.rowptr, pattern.col.short(), values, x)
    with pytest.raises(ValueError, match="x must be contiguous"):
        cpu_csr.step(*graph, values, x.t().contiguous().t())
    with pytest.raises(ValueError, match=r"value must be .* of shape \[300\]"):
        cpu_csr.step(*graph, values[1:], x)
    with pytest.raises(ValueError, match="rowptr must run from 0 to 299"):
        cpu_csr.step(pattern.rowptr, pattern.col[1:], values[1:], x)
    with pytest.raises(ValueError, match=r"out must be .* of shape \[30, 2\]"):
        cpu_csr.step(*graph, values, x, out=torch.empty(29, 2, dtype=torch.float64))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 6, 16])
def test_product_against_functional(channels, dtype, device):
    pattern, values, dense = example(dtype=dtype, device=device)
    x = torch.randn(channels, 30, dtype=dtype, device=device).t()  # not contiguous
    with use("fused"):
        close(large.product(pattern, values, x), dense @ x)
        shifted = torch.randn(30 * channels + 1, dtype=dtype, device=device)[1:].view(30, channels)
        close(large.product(pattern, values, shifted), dense @ shifted)
        turned = large.product(pattern.transpose(), values[pattern.to_columns], dense @ x)
    close(turned, dense.T @ dense @ x)


def test_product_is_taken_where_it_pays():
    pattern, values, _ = example()
    x = torch.randn(30, 4, dtype=torch.float64)
    assert large.product(pattern, values, x) is None
    with use("fused"):
        assert large.product(pattern, values, x) is not None
        assert large.product(pattern, values.half(), x.half()) is None
        assert large.product(pattern, values.float(), x) is None
    wide = torch.randn(30, 4000, dtype=torch.float64)
    assert large.product(pattern, values, wide) is not None
    with use("reference"):
        assert large.product(pattern, values, wide) is None


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_through_spmm(counted, device):
    pattern, values, _ = example(rows=7, columns=5, entries=12, device=device)
    x = torch.randn(5, 2, dtype=torch.float64, device=device, requires_grad=True)
    inputs = (values.requires_grad_(), x)
    with use("fused"):
        assert torch.autograd.gradcheck(lambda v, x: spmm(pattern, v, x), inputs)
        assert torch.autograd.gradgradcheck(lambda v, x: spmm(pattern, v, x), inputs)
    # On a GPU, gradients are computed in a thread that does not see the choice.
    assert all(counted) if device == "cpu" else any(counted)


@pytest.mark.parametrize("dims", [(None, 0), (None, 2), (0, 1)])
def test_spmm_maps(counted, dims):
    pattern, values, _ = example()
    values = torch.randn(3, 300, dtype=torch.float64) if dims[0] is not None else values
    x = torch.randn([3, 30, 2] if dims[1] == 0 else [30, 2, 3] if dims[1] == 2 else [30, 3, 2])
    x = x.double()
    with use("fused"):
        found = vmap(lambda v, x: spmm(pattern, v, x), in_dims=dims)(values, x)
    assert all(counted)
    assert len(counted) == (1 if dims[0] is None else 0)
    for i in range(3):
        v = values if dims[0] is None else values[i]
        with use("reference"):
            close(found[i], spmm(pattern, v, x.select(dims[1], i)))


def test_mapped_gradients(counted):
    pattern, values, _ = example()
    x = torch.randn(3, 30, 2, dtype=torch.float64)
    slope = vmap(grad(lambda x: spmm(pattern, values, x).square().sum()))
    with use("fused"):
        found = slope(x)
    assert len(counted) == 2 and all(counted)
    with use("reference"):
        torch.testing.assert_close(found, slope(x), rtol=1e-12, atol=1e-10)


def test_scattering_with_and_without(counted):
    graph = strategies.from_pairs(60, strategies.circulant_pairs(60, [1, 4, 9])[:-20])
    x = torch.randn(60, 3, dtype=torch.float64)
    found = {}
    for choice in ("fused", "reference"):
        counted.clear()
        module = Scattering(3, aggr=None, lowpass=True).double()
        signal = x.clone().requires_grad_()
        with use(choice):
            out = module(signal, graph.edge_index)
            out.square().sum().backward()
        found[choice] = [out, signal.grad, module.selection.theta.grad]
        assert counted and all(counted) == any(counted) == (choice == "fused")
    for one, other in zip(*found.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (16,), (3, 7)])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 16])
def test_steps_against_functional(steps, shape, dtype, device):
    walk = ring_and_more(dtype=dtype, device=device)
    x = torch.randn(200, *shape, dtype=dtype, device=device)
    given = x.clone()
    with use("fused"):
        found = large.diffusion_steps(x, walk, 0.55, steps)
    expected = fn.diffusions(x, walk, 0.55, steps + 1)[-1]
    assert torch.equal(x, given) and found.data_ptr() != x.data_ptr()
    close(found, expected)


@settings(max_examples=30, deadline=None)
@given(strategies.graphs())
def test_steps_on_all_sorts_of_graphs(graph):
    walk = fn.random_walk(graph.edge_index, graph.edge_weight, graph.num_nodes, torch.float64)
    x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    with use("fused"):
        found = large.diffusion_steps(x, walk, 0.5, 7)
    close(found, fn.diffusions(x, walk, 0.5, 8)[-1])
    close(found.sum(0), x.sum(0))  # no mass is lost


def test_steps_need_two_rooms(monkeypatch):
    monkeypatch.setattr(cpu_csr, "LARGE", 0)
    walk = ring_and_more(2000, torch.float32)
    x = torch.randn(2000, 16)
    with use("fused"):
        first = large.diffusion_steps(x, walk, 0.5, 3)
        tracemalloc.start()
        large.diffusion_steps(x, walk, 0.5, 16)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    state = x.numel() * x.itemsize
    assert 2 * state <= peak < 2.5 * state
    assert first.shape == x.shape


def test_steps_keep_no_gradient_and_refuse_to_go_back():
    walk = ring_and_more()
    x = torch.randn(200, 2, dtype=torch.float64, requires_grad=True)
    for choice in ("fused", "reference"):
        with use(choice):
            assert not large.diffusion_steps(x, walk, 0.5, 2).requires_grad
    with pytest.raises(ValueError, match="steps must not be negative; got -1"):
        large.diffusion_steps(x, walk, 0.5, -1)


def test_registered():
    assert sparse.products["cpu"] is sparse.products["cuda"] is large.product
