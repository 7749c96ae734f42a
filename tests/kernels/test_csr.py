"""Batches in compressed rows, and products with large graphs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad, vmap

from legs import functional as fn
from legs.functional.sparse import build_pattern, spmm
from legs.kernels import csr
from legs.kernels.csr import make_batch
from legs.kernels.gpu import launch
from legs.nn import Scattering
from tests import strategies

pytest.importorskip("numba", reason="the CPU kernels need numba")

from legs.kernels.cpu import graph
from legs.kernels.cpu import spmm as cpu_spmm

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
NEEDS_GPU = pytest.mark.skipif(not launch.available(), reason="needs a GPU")
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not launch.available(), reason="needs a GPU")),
]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def always(monkeypatch):
    """Products by kernels however small they are, and how often one was computed."""
    computed = []

    def product(*inputs):
        out = csr.product(*inputs)
        computed.append(out is not None)
        return out

    monkeypatch.setattr(csr, "MIN_WORK", 0)
    return product, computed


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
def test_product_against_dense(channels, dtype, index, ahead, monkeypatch):
    monkeypatch.setattr(cpu_spmm, "SMALL", 0 if ahead else 2**60)
    pattern, values, dense = example(dtype=dtype)
    x = torch.randn(30, channels, dtype=dtype)
    col = pattern.col.to(index)
    close(cpu_spmm.product(pattern.rowptr, col, values, x), dense @ x)


@pytest.mark.parametrize("channels", [3, 16])
def test_any_number_of_threads_gives_the_same_bits(channels, threads, monkeypatch):
    monkeypatch.setattr(cpu_spmm, "WORK_PER_THREAD", 1)
    parts = []
    run = cpu_spmm.threads.run
    monkeypatch.setattr(
        cpu_spmm.threads, "run", lambda calls: parts.append(len(calls)) or run(calls)
    )
    pattern, values, _ = example(rows=1000, columns=1000, entries=9000, dtype=torch.float32)
    x = torch.randn(1000, channels)
    found = []
    for count in (1, 2, 2, 5):
        threads(count)
        found.append(cpu_spmm.product(pattern.rowptr, pattern.col, values, x))
    assert parts[:3] == [1, 2, 2] and parts[3] > 2
    assert all(torch.equal(found[0], other) for other in found[1:])


def test_prefetching_changes_no_bit(monkeypatch):
    pattern, values, _ = example(rows=500, columns=400, entries=5000, dtype=torch.float32)
    x = torch.randn(400, 36)
    plain = cpu_spmm.product(pattern.rowptr, pattern.col, values, x)
    monkeypatch.setattr(cpu_spmm, "SMALL", 0)
    assert cpu_spmm.block_of(36, x.dtype, True) != cpu_spmm.block_of(36, x.dtype, False)
    assert torch.equal(cpu_spmm.product(pattern.rowptr, pattern.col, values, x), plain)


@pytest.mark.parametrize(("rows", "columns", "channels"), [(0, 3, 2), (3, 2, 0), (4, 3, 2)])
def test_product_without_entries(rows, columns, channels):
    nothing = torch.zeros(0, dtype=torch.int64)
    x = torch.ones(columns, channels)
    found = cpu_spmm.product(torch.zeros(rows + 1, dtype=torch.int64), nothing, torch.zeros(0), x)
    assert torch.equal(found, torch.zeros(rows, channels))


def test_blocks_never_reach_beyond_the_channels():
    for dtype in (torch.float32, torch.float64):
        for channels in range(1, 400):
            block = cpu_spmm.block_of(channels, dtype)
            assert 1 <= block.width <= channels and block.parts <= cpu_spmm.MAX_LINES
            assert channels < 2 * cpu_spmm.LINE or block.width > cpu_spmm.LINE // dtype.itemsize


def test_large_outputs_begin_with_a_line():
    out = cpu_spmm._empty(2**16, 17, torch.float32)
    assert out.shape == (2**16, 17) and out.dtype == torch.float32 and out.is_contiguous()
    assert out.data_ptr() % cpu_spmm.LINE == 0
    assert out.fill_(1.0).sum() == 2**16 * 17


def test_product_needs_matching_sizes():
    pattern, values, _ = example(rows=30)
    x = torch.randn(30, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="one value per entry"):
        cpu_spmm.product(pattern.rowptr, pattern.col, values[1:], x)
    with pytest.raises(ValueError, match="rowptr must run from 0 to 299"):
        cpu_spmm.product(pattern.rowptr, pattern.col[1:], values[1:], x)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 6, 16])
def test_product_of_a_pattern(channels, dtype, device, always):
    product, _ = always
    pattern, values, dense = example(dtype=dtype, device=device)
    x = torch.randn(channels, 30, dtype=dtype, device=device).t()  # not contiguous
    close(product(pattern, values, x), dense @ x)
    shifted = torch.randn(30 * channels + 1, dtype=dtype, device=device)[1:].view(30, channels)
    close(product(pattern, values, shifted), dense @ shifted)
    turned = product(pattern.transpose(), values[pattern.to_columns], dense @ x)
    close(turned, dense.T @ dense @ x)


def test_product_is_computed_where_it_pays(monkeypatch):
    pattern, values, _ = example()
    x = torch.randn(30, 4, dtype=torch.float64)
    assert csr.product(pattern, values, x) is None
    wide = torch.randn(30, 4000, dtype=torch.float64)
    assert csr.product(pattern, values, wide) is not None
    assert csr.product(pattern, values.half(), wide.half()) is None
    assert csr.product(pattern, values.float(), wide) is None


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_through_spmm(always, device):
    product, computed = always
    pattern, values, _ = example(rows=7, columns=5, entries=12, device=device)
    pattern = pattern._replace(product=product)
    x = torch.randn(5, 2, dtype=torch.float64, device=device, requires_grad=True)
    inputs = (values.requires_grad_(), x)
    assert torch.autograd.gradcheck(lambda v, x: spmm(pattern, v, x), inputs)
    assert torch.autograd.gradgradcheck(lambda v, x: spmm(pattern, v, x), inputs)
    assert all(computed)


@pytest.mark.parametrize("dims", [(None, 0), (None, 2), (0, 1)])
def test_spmm_maps(always, dims):
    product, computed = always
    pattern, values, _ = example()
    fast = pattern._replace(product=product)
    values = torch.randn(3, 300, dtype=torch.float64) if dims[0] is not None else values
    x = torch.randn([3, 30, 2] if dims[1] == 0 else [30, 2, 3] if dims[1] == 2 else [30, 3, 2])
    x = x.double()
    found = vmap(lambda v, x: spmm(fast, v, x), in_dims=dims)(values, x)
    assert computed == ([True] if dims[0] is None else [])
    for i in range(3):
        v = values if dims[0] is None else values[i]
        close(found[i], spmm(pattern, v, x.select(dims[1], i)))


def test_mapped_gradients(always):
    product, computed = always
    pattern, values, _ = example()
    x = torch.randn(3, 30, 2, dtype=torch.float64)

    def slope(pattern):
        return vmap(grad(lambda x: spmm(pattern, values, x).square().sum()))(x)

    found = slope(pattern._replace(product=product))
    assert computed == [True, True]
    torch.testing.assert_close(found, slope(pattern), rtol=1e-12, atol=1e-10)


def test_only_the_reference_backend_is_plain(always, monkeypatch):
    product, computed = always
    monkeypatch.setattr(
        "legs.kernels.bank.accelerated",
        lambda walk: walk._replace(pattern=walk.pattern._replace(product=product)),
    )
    drawn = strategies.from_pairs(60, strategies.circulant_pairs(60, [1, 4, 9])[:-20])
    x = torch.randn(60, 3, dtype=torch.float64)
    found = {}
    for backend in ("auto", "reference"):
        computed.clear()
        module = Scattering(3, aggr=None, lowpass=True, backend=backend).double()
        signal = x.clone().requires_grad_()
        out = module(signal, drawn.edge_index)
        out.square().sum().backward()
        found[backend] = [out, signal.grad, module.selection.theta.grad]
        assert all(computed) and bool(computed) == (backend == "auto")
    for one, other in zip(*found.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


# Batches


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(0, 60))
def test_edges_are_sorted_by_target_and_source(nodes, edges):
    index, weight = torch.randint(nodes, (2, edges)), torch.rand(edges)
    order = torch.argsort(index[1] * nodes + index[0], stable=True)
    batch = make_batch(torch.ones(nodes, 1), index, weight, validate=False)
    assert torch.equal(batch.col, index[0][order])
    assert torch.equal(batch.weight, weight[order])
    assert torch.equal(batch.rowptr.diff(), torch.bincount(index[1], minlength=nodes))
    assert batch.rowptr[0] == 0 and batch.ptr.tolist() == [0, nodes]


def test_graph_pointers():
    x, none = torch.ones(3, 1), torch.empty(2, 0, dtype=torch.long)
    assert make_batch(x, none, None, torch.tensor([0, 0, 2]), 4).ptr.tolist() == [0, 2, 2, 3, 3]


def triangle():
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    return [torch.rand(3, 2), edge_index, None, None, 1]


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, torch.tensor([[0, 3], [3, 0]]), "edge_index names node 3, but there are 3 nodes"),
        (1, torch.tensor([[0, -1], [-1, 0]]), "edge_index names node -1"),
        (1, torch.tensor([0, 1]), r"shape \[2, edges\]"),
        (1, torch.tensor([[0, 1], [1, 0]]).int(), "64-bit integers"),
        (2, torch.ones(5), "edge_weight must have shape"),
        (3, torch.tensor([0, 0]), r"batch must have shape \[3\]"),
        (3, torch.tensor([0, 1, 0]), "batch must be sorted"),
        (3, torch.tensor([-1, 0, 0]), "batch must not be negative"),
        (3, torch.tensor([0, 0, 1]), "batch names graph 1, but batch_size is 1"),
        (3, torch.zeros(3).int(), "64-bit integers"),
    ],
)
def test_what_kernels_must_not_read_is_an_error(validate, place, value, message):
    arguments = triangle()
    arguments[place] = value
    with pytest.raises(ValueError, match=message):
        make_batch(*arguments, validate=validate)


def test_edges_between_graphs_are_an_error():
    x, edge_index, *_ = triangle()
    with pytest.raises(ValueError, match="connects node"):
        make_batch(x, edge_index, None, torch.tensor([0, 0, 1]), 2, validate=False)


def test_graphs_are_validated():
    x, edge_index, *_ = triangle()
    directed = edge_index[:, 1:]
    with pytest.raises(ValueError, match="edge_index is directed"):
        make_batch(x, directed)
    make_batch(x, directed, validate=False)
    for bad in (-1.0, torch.inf, torch.nan):
        weight = torch.ones(6)
        weight[3] = bad
        with pytest.raises(ValueError, match="edge_weight must be finite and non-negative; edge 3"):
            make_batch(x, edge_index, weight)
    weight = torch.ones(6)
    weight[0] = 1.1
    with pytest.raises(ValueError, match="edge_index is directed"):
        make_batch(x, edge_index, weight)
    weight[0] = 1 + 1e-7  # rounding
    make_batch(x, edge_index, weight)


def test_merged_nodes_may_be_asymmetric():
    x, edge_index, *_ = triangle()
    weight = torch.tensor([1.0, 2.0, 1.0, 1.0, 2.0, 1.0])
    make_batch(x, edge_index, weight, multiplicity=torch.tensor([2.0, 1.0, 1.0]))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_symmetry_is_that_of_the_reference(data):
    """The compiled check accepts nothing that the reference refuses, and asks it when in doubt."""
    drawn = data.draw(strategies.batches(weighted=data.draw(st.booleans())))
    edge_index, weight = drawn.edge_index, drawn.edge_weight
    order = torch.tensor(data.draw(st.permutations(range(edge_index.shape[1]))), dtype=torch.long)
    order = order[: len(order) - data.draw(st.integers(0, 2))]
    edge_index, weight = edge_index[:, order], None if weight is None else weight[order]
    x = torch.ones(drawn.num_nodes, 1, dtype=torch.float64)
    try:
        fn.check_undirected(edge_index, weight, drawn.num_nodes)
    except ValueError as error:
        with pytest.raises(ValueError, match="directed") as found:
            make_batch(x, edge_index, weight, drawn.batch, drawn.num_graphs)
        assert str(found.value) == str(error)
    else:
        make_batch(x, edge_index, weight, drawn.batch, drawn.num_graphs)


def test_a_sound_batch_needs_no_second_look(monkeypatch):
    monkeypatch.setattr(csr, "check_graphs", lambda *given: pytest.fail("checked twice"))
    x, edge_index, *_ = triangle()
    for order in ([0, 1, 2, 3, 4, 5], [5, 0, 3, 1, 4, 2]):
        make_batch(x, edge_index[:, order], torch.ones(6))
        make_batch(x, edge_index[:, order].repeat(1, 2))  # parallel edges
    assert graph.VALID == 0


@NEEDS_GPU
def test_sorted_edges_need_no_sort():
    x, edge_index = torch.rand(3, 1, device="cuda"), torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]])
    batches = [
        csr.make_batch(x, edge_index.cuda(), torch.ones(4, device="cuda"), is_sorted=is_sorted)
        for is_sorted in (False, True)
    ]
    for sorted_here, as_given in zip(*batches, strict=True):
        assert sorted_here is as_given or sorted_here.equal(as_given)
