"""Message passing in plain PyTorch, by loops on the CPU, and by kernels: on a GPU or emulated."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from torch.func import grad, vmap
from torch.nn import functional as F
from torch_geometric.nn import GATConv, LayerNorm, global_add_pool, global_mean_pool

from legs.kernels import messages, messages_cpu, messages_cuda
from legs.kernels.messages import aggregate, attend, make_graphs, norm_relu, pool, tanh
from tests.graphs import path_graph, random_graph, undirected

GPU = torch.cuda.is_available()
NUMBA = pytest.mark.skipif(find_spec("numba") is None, reason="the loops need numba")
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@pytest.fixture
def device(way, monkeypatch, request):
    """Where tensors go: ``way`` is plain PyTorch, loops, or the kernels."""
    monkeypatch.setattr(messages_cuda, "LONG", 8)  # small graphs have long rows, too
    monkeypatch.setattr(messages_cpu, "ROWS_OF_A_SUM", 10)
    if way != "kernels":
        monkeypatch.setattr(messages_cuda, "applies", lambda x: False)
        monkeypatch.setattr(messages_cpu, "applies", lambda x: way == "loops")
        return "cuda" if GPU and way == "plain" else "cpu"
    return request.getfixturevalue("gpu")


def ways(*quick):
    """In every way. Emulated kernels are compiled for every case, so few are quick there."""
    for number, dtype in enumerate((torch.float64, torch.float32)):
        yield pytest.param("plain", dtype, id=f"plain-{dtype}")
        yield pytest.param("loops", dtype, id=f"loops-{dtype}", marks=NUMBA)
        marks = () if GPU or (number == 0 and "kernels" in quick) else (pytest.mark.long,)
        yield pytest.param("kernels", dtype, id=f"kernels-{dtype}", marks=marks)


def in_every_way(quick=True):
    return pytest.mark.parametrize(("way", "dtype"), list(ways("kernels" if quick else "")))


def star(leaves):
    return undirected(
        torch.stack([torch.zeros(leaves, dtype=torch.long), *[torch.arange(leaves) + 1]], dim=1),
        leaves + 1,
    )


def batch_of(graphs, dtype, weighted=False, fillers=0):
    """Graphs side by side, edges sorted by target, and filling nodes with loops at the end."""
    edges, batch, start = [], [], 0
    for number, graph in enumerate(graphs):
        edges.append(graph.edge_index + start)
        batch += [number] * graph.num_nodes
        start += graph.num_nodes
    if fillers:
        edges.append((start + torch.arange(3 * fillers) // 3).expand(2, -1))
        batch += [len(graphs)] * fillers
    edge_index = torch.cat(edges, dim=1)
    edge_index = edge_index[:, edge_index[1].argsort(stable=True)]
    low, high = edge_index.min(0).values, edge_index.max(0).values
    weight = (0.5 + ((low * 31 + high * 17) % 11) / 10.0).to(dtype) if weighted else None
    return edge_index, weight, torch.tensor(batch), len(graphs) + (fillers > 0)


def some_graphs():
    """Random ones, a path, lone nodes, a star beyond the length of a row for one group."""
    generator = torch.Generator().manual_seed(0)
    lone = undirected(torch.empty(0, 2, dtype=torch.long), 3)
    one = undirected(torch.empty(0, 2, dtype=torch.long), 1)
    return [random_graph(9, generator), one, star(30), lone, path_graph(5)]


def on(device, given):
    edge_index, weight, batch, count = given
    moved = [None if t is None else t.to(device) for t in (edge_index, weight, batch)]
    return make_graphs(*moved, len(batch), count)


def dense(given, dtype, weighted):
    edge_index, weight, batch, _ = given
    values = weight if weighted else torch.ones(edge_index.shape[1], dtype=dtype)
    matrix = torch.zeros(len(batch), len(batch), dtype=dtype)
    return matrix.index_put((edge_index[1], edge_index[0]), values, accumulate=True)


def noise(*shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def agree(function, expected, inputs, dtype, device):
    """Values and gradients of one function on the device, and of another on the CPU."""
    found = []
    for call, place in ((function, device), (expected, "cpu")):
        own = [x.detach().to(place).requires_grad_() for x in inputs]
        out = call(*own)
        cotangent = noise(*out.shape, dtype=dtype, seed=9).to(place)
        grads = torch.autograd.grad((out * cotangent).sum(), own)
        found.append([x.detach().cpu() for x in (out, *grads)])
    for a, b in zip(*found, strict=True):
        assert a.shape == b.shape
        assert ((a - b).abs().max() / b.abs().max().clamp_min(1)) < TOLERANCE[dtype]


@in_every_way()
def test_aggregate(way, dtype, device):
    given = batch_of(some_graphs(), dtype, weighted=True, fillers=4)
    graphs, nodes = on(device, given), len(given[2])
    pre, post = noise(2, nodes, dtype=dtype, seed=1)
    matrix, h = dense(given, dtype, True), noise(3, nodes, 8, dtype=dtype)

    def expected(h):
        scaled = pre[:, None] * h
        return post[:, None] * (matrix @ scaled + scaled)

    def found(h):
        scales = {"pre": pre.to(device), "post": post.to(device)}
        return vmap(lambda h: aggregate(h, graphs, weighted=True, own=1.0, **scales))(h)

    agree(found, expected, [h], dtype, device)


@pytest.mark.parametrize("channels", [1, 3, 6, 64, 200])
@in_every_way(quick=False)
def test_aggregate_at_any_width(way, dtype, device, channels):
    given = batch_of(some_graphs(), dtype)
    graphs, matrix = on(device, given), dense(given, dtype, False)
    h = noise(2, len(matrix), channels, dtype=dtype)
    agree(lambda h: aggregate(h, graphs), lambda h: matrix @ h, [h], dtype, device)


@in_every_way(quick=False)
def test_aggregate_with_a_number_a_model(way, dtype, device):
    given = batch_of(some_graphs(), dtype)
    graphs, matrix = on(device, given), dense(given, dtype, False)
    h, own = noise(3, len(matrix), 4, dtype=dtype), torch.tensor([1.0, 0.5, -2.0], dtype=dtype)

    def found(h):
        return vmap(lambda h, own: aggregate(h, graphs, own=own))(h, own.to(device)[:, None])

    agree(found, lambda h: matrix @ h + own[:, None, None] * h, [h], dtype, device)


@in_every_way()
def test_aggregate_beside_another_half(way, dtype, device):
    given = batch_of(some_graphs(), dtype)
    graphs, matrix = on(device, given), dense(given, dtype, False)
    h, post = noise(2, len(matrix), 12, dtype=dtype), noise(len(matrix), dtype=dtype, seed=2)
    agree(
        lambda h: vmap(lambda h: aggregate(h, graphs, post=post.to(device), side=True))(h),
        lambda h: post[:, None] * (matrix @ h[..., :6]) + h[..., 6:],
        [h],
        dtype,
        device,
    )


@pytest.mark.parametrize("start", [0, 4, 3])
@in_every_way(quick=False)
def test_aggregate_of_a_part_of_wider_rows(way, dtype, device, start):
    given = batch_of(some_graphs(), dtype)
    graphs, matrix = on(device, given), dense(given, dtype, False)
    h, end = noise(2, len(matrix), 20, dtype=dtype), start + 8
    agree(
        lambda h: aggregate(h[..., start:end], graphs),
        lambda h: matrix @ h[..., start:end],
        [h],
        dtype,
        device,
    )


def layer_norm(z, gamma, beta, bias):
    norm = LayerNorm(z.shape[-1], mode="node").to(z.dtype)
    out = [
        torch.func.functional_call(norm, {"weight": g, "bias": b}, (x + c,))
        for x, g, b, c in zip(z, gamma, beta, bias, strict=True)
    ]
    return torch.stack(out).relu()


@pytest.mark.parametrize("channels", [8, 6, 64, 80, 200])
@in_every_way(quick=False)
def test_norm_relu(way, dtype, device, channels):
    given = batch_of(some_graphs(), dtype)
    graphs = on(device, given)
    z = 3 * noise(3, len(given[2]), channels, dtype=dtype) + 5
    layer = list(noise(3, 3, channels, dtype=dtype, seed=4))
    agree(
        lambda *x: vmap(lambda z, *layer: norm_relu(z, graphs, *layer))(*x),
        layer_norm,
        [z, *layer],
        dtype,
        device,
    )


@in_every_way()
def test_norm_relu_pooled_by_two_shares(way, dtype, device):
    given = batch_of(some_graphs(), dtype, fillers=3)
    graphs, batch, count = on(device, given), given[2], given[3]
    z, layer = noise(2, len(batch), 12, dtype=dtype), list(noise(3, 2, 12, dtype=dtype, seed=4))
    share = noise(len(batch), 2, dtype=dtype, seed=5)

    def expected(*x):
        out = layer_norm(*x)
        sums = [global_add_pool(share[:, k, None] * out, batch, count) for k in range(2)]
        return torch.cat(sums, dim=-1)

    agree(
        lambda *x: vmap(lambda *x: norm_relu(x[0], graphs, *x[1:], share=share.to(device)))(*x),
        expected,
        [z, *layer],
        dtype,
        device,
    )


@pytest.mark.parametrize(("inputs", "channels"), [(2, 64), (3, 6), (4, 200), (9, 8)])
@pytest.mark.parametrize("pooled", [False, True])
@in_every_way(quick=False)
def test_norm_relu_after_a_linear_layer(way, dtype, device, inputs, channels, pooled):
    """Gradients of inputs too; of few inputs, the kernels do the layer row by row."""
    given = batch_of(some_graphs(), dtype, fillers=3)
    graphs, batch, count = on(device, given), given[2], given[3]
    ones = torch.ones(len(batch), 1, dtype=dtype, device=device) if pooled else None
    z, weight = noise(2, len(batch), inputs, dtype=dtype), noise(2, channels, inputs, dtype=dtype)
    layer = list(noise(3, 2, channels, dtype=dtype, seed=4))

    def expected(z, weight, *layer):
        out = layer_norm(z @ weight.mT, *layer)
        return global_add_pool(out, batch, count) if pooled else out

    def found(z, weight, *layer):
        return norm_relu(z, graphs, *layer, weight=weight, share=ones)

    agree(lambda *x: vmap(found)(*x), expected, [z, weight, *layer], dtype, device)


@pytest.mark.parametrize("way", ["kernels"])
def test_narrow_layers_of_parameters_that_lie_apart(way, device, monkeypatch):
    """Nothing is copied, no gradient of the inputs is computed, and rows are never written."""
    dtype = torch.float64
    given = batch_of(some_graphs(), dtype)
    graphs, nodes = on(device, given), len(given[2])
    row = noise(3, 64 * 5 + 4, dtype=dtype).to(device)
    parts = (*row[:, : 3 * 64].split(64, dim=1), row[:, 192:320].view(3, 64, 2))
    own = [part.detach().requires_grad_() for part in parts]
    z = noise(3, nodes, 2, dtype=dtype).to(device)
    launched = []
    run = messages_cuda._run

    def follow(part, name, like, shape, constants, blocks, arguments):
        launched.append((name, constants["NARROW"], [a for a in arguments if a is not None]))
        run(part, name, like, shape, constants, blocks, arguments)

    monkeypatch.setattr(messages_cuda, "_run", follow)

    def layer(z, gamma, beta, bias, weight):
        return norm_relu(z, graphs, gamma, beta, bias, weight=weight)

    grads = torch.autograd.grad(vmap(layer)(z, *own).sin().sum(), own)
    assert [(name, narrow) for name, narrow, _ in launched] == [
        ("rows_forward", 2),
        ("rows_backward", 2),
    ]
    storage = row.untyped_storage().data_ptr()
    for _, _, arguments in launched:
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        assert sum(a.untyped_storage().data_ptr() == storage for a in tensors) == 4
    monkeypatch.setattr(messages_cuda, "applies", lambda x: False)
    expected = torch.autograd.grad(vmap(layer)(z, *own).sin().sum(), own)
    for a, b in zip(grads, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_norm_relu_of_constant_rows_stays_finite():
    graphs = make_graphs(torch.empty(2, 0, dtype=torch.long), None, None, 2)
    z = torch.ones(2, 4, requires_grad=True)
    out = norm_relu(z, graphs, torch.ones(4), torch.ones(4))
    (found,) = torch.autograd.grad(out.sum(), z)
    assert out.isfinite().all() and found.isfinite().all()


@pytest.mark.parametrize("pooled", [False, True])
@in_every_way(quick=False)
def test_what_is_not_a_number_stays_so(way, dtype, device, pooled):
    given = batch_of(some_graphs(), dtype)
    graphs, nodes = on(device, given), len(given[2])
    z, layer = noise(nodes, 8, dtype=dtype), noise(2, 8, dtype=dtype, seed=1).to(device)
    z[12, 3] = torch.nan  # its row has no mean, its graph no sum
    ones = torch.ones(nodes, 1, dtype=dtype, device=device) if pooled else None
    z = z.to(device).requires_grad_()
    out = norm_relu(z, graphs, *layer, share=ones)
    assert rows_without_numbers(out) == [int(given[2][12]) if pooled else 12]
    (found,) = torch.autograd.grad(out.sum(), z)
    assert rows_without_numbers(found) == [12]


def rows_without_numbers(x):
    assert x.isnan().all(-1).equal(x.isnan().any(-1))
    return x.isnan().all(-1).nonzero().flatten().tolist()


@pytest.mark.parametrize("pooled", [False, True])
@in_every_way(quick=False)
def test_tanh(way, dtype, device, pooled):
    given = batch_of(some_graphs(), dtype)
    graphs, batch, count = on(device, given), given[2], given[3]
    z, bias = noise(2, len(batch), 12, dtype=dtype), noise(2, 12, dtype=dtype, seed=4)
    ones = torch.ones(len(batch), 1, dtype=dtype, device=device) if pooled else None

    def expected(z, bias):
        out = torch.tanh(z + bias[:, None])
        return global_add_pool(out, batch, count) if pooled else out

    agree(
        lambda z, bias: vmap(lambda z, bias: tanh(z, graphs, bias, share=ones))(z, bias),
        expected,
        [z, bias],
        dtype,
        device,
    )


@in_every_way()
def test_pool(way, dtype, device):
    given = batch_of(some_graphs(), dtype, fillers=3)
    graphs, batch, count = on(device, given), given[2], given[3]
    h = noise(2, len(batch), 5, dtype=dtype)
    share = (1 / torch.bincount(batch).to(dtype))[batch].unsqueeze(-1).to(device)
    agree(
        lambda h: vmap(lambda h: pool(h, graphs, share))(h),
        lambda h: global_mean_pool(h, batch, count),
        [h],
        dtype,
        device,
    )


@pytest.mark.parametrize(("heads", "channels"), [(4, 4), (4, 16), (2, 3), (1, 8)])
@in_every_way(quick=False)
def test_attend(way, dtype, device, heads, channels):
    """Against PyG's layer; three channels a head do not fit the kernels, which hand over."""
    given = batch_of(some_graphs(), dtype, fillers=4)
    graphs, edge_index, nodes = on(device, given), given[0], len(given[2])
    h = 2 * noise(2, nodes, heads * channels, dtype=dtype)
    att = noise(2, 2, heads, channels, dtype=dtype, seed=3)

    def expected(h, *att):
        size = heads * channels
        conv = GATConv(size, channels, heads, bias=False).to(dtype)
        names = ("att_src", "att_dst")
        found = []
        for model in range(len(h)):
            given = {name: a[model, None] for name, a in zip(names, att, strict=True)}
            given["lin.weight"] = torch.eye(size, dtype=dtype)
            found.append(torch.func.functional_call(conv, given, (h[model], edge_index)))
        return torch.stack(found)

    def one(h, *att):
        states = h.unflatten(-1, (heads, channels))
        scores = [(states * a).sum(-1) for a in att]
        return attend(torch.cat([h, *scores], dim=-1), graphs, heads)

    agree(lambda *x: vmap(one)(*x), expected, [h, *att], dtype, device)


@in_every_way()
def test_attend_of_large_scores(way, dtype, device):
    given = batch_of(some_graphs(), dtype)
    graphs, edge_index, nodes = on(device, given), given[0], len(given[2])
    u = noise(1, nodes, 24, dtype=dtype)
    u[..., 16:] *= 300

    def expected(u):
        loops = torch.arange(nodes)
        source, target = torch.cat([edge_index, loops.expand(2, -1)], dim=1)
        score = F.leaky_relu(u[0, source, 16:20] + u[0, target, 20:], 0.2)
        score = torch.full((nodes, nodes, 4), -torch.inf, dtype=dtype).index_put(
            (target, source), score
        )
        states = u[0, :, :16].unflatten(-1, (4, 4))
        return torch.einsum("ijh,jhc->ihc", score.softmax(1), states).reshape(1, nodes, 16)

    agree(lambda u: attend(u, graphs, 4), expected, [u], dtype, device)


@pytest.mark.parametrize("way", ["kernels"])
@pytest.mark.parametrize("leaves", [pytest.param(5000, marks=() if GPU else pytest.mark.long)])
def test_hubs_of_many_neighbours(way, device, monkeypatch, leaves):
    dtype = torch.float64
    given = batch_of([star(leaves), *some_graphs()], dtype)
    plain, graphs, nodes = on("cpu", given), on(device, given), len(given[2])
    monkeypatch.setattr(messages_cuda, "LONG", 64)
    kernels = messages_cuda.applies

    def in_plain(function, *inputs):
        monkeypatch.setattr(messages_cuda, "applies", lambda x: False)
        out = function(*inputs)
        monkeypatch.setattr(messages_cuda, "applies", kernels)
        return out

    h, u = noise(1, nodes, 16, dtype=dtype), noise(1, nodes, 24, dtype=dtype)
    agree(
        lambda h: aggregate(h, graphs),
        lambda h: in_plain(lambda: aggregate(h, plain)),
        [h],
        dtype,
        device,
    )
    agree(
        lambda u: attend(u, graphs, 4),
        lambda u: in_plain(lambda: attend(u, plain, 4)),
        [u],
        dtype,
        device,
    )


@pytest.mark.parametrize(("way", "dtype"), [("kernels", torch.float64)])
def test_gradients_inside_a_map(way, dtype, device):
    given = batch_of(some_graphs(), dtype)
    graphs, nodes = on(device, given), len(given[2])
    h = noise(2, nodes, 24, dtype=dtype).to(device)
    gamma, beta = noise(2, 2, 16, dtype=dtype, seed=1).to(device)

    def loss(h, gamma, beta):
        z = attend(h, graphs, 4)
        return norm_relu(aggregate(z, graphs, own=1.0), graphs, gamma, beta).square().sum()

    inside = vmap(grad(loss, argnums=(0, 1, 2)))(h, gamma, beta)
    own = [x.clone().requires_grad_() for x in (h, gamma, beta)]
    outside = torch.autograd.grad(vmap(loss)(*own).sum(), own)
    for a, b in zip(inside, outside, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("way", "dtype"), [("kernels", torch.float32)])
@pytest.mark.long
def test_the_same_bits_every_time(way, dtype, device):
    given = batch_of([star(300), *some_graphs()], dtype, weighted=True)
    graphs, nodes = on(device, given), len(given[2])
    u = noise(2, nodes, 72, dtype=dtype).to(device)
    layer = noise(3, 2, 64, dtype=dtype).to(device)

    def once():
        own = u.clone().requires_grad_()
        z = aggregate(attend(own, graphs, 4), graphs, weighted=True)
        out = norm_relu(z, graphs, *layer)
        return out, *torch.autograd.grad(out.sin().sum(), own)

    for a, b in zip(once(), once(), strict=True):
        assert a.equal(b)


@pytest.mark.parametrize(("way", "dtype"), [("kernels", torch.float64)])
def test_graphs_of_their_own_for_every_model_are_refused(way, dtype, device):
    given = batch_of(some_graphs(), dtype)
    graphs, nodes = on(device, given), len(given[2])
    h, scales = noise(nodes, 2, dtype=dtype).to(device), noise(3, nodes, dtype=dtype).to(device)
    with pytest.raises(RuntimeError, match="same for all models"):
        vmap(lambda scale: aggregate(h, graphs, pre=scale))(scales)


def test_who_wants_it():
    from legs.kernels import use

    x = torch.rand(3, 2, device="cuda" if GPU else "cpu")
    assert messages.wanted(x)
    assert messages.wanted(x.double())
    assert not messages.wanted(x.half())
    assert not messages.wanted(x.to("meta"))
    with use("reference"):
        assert not messages.wanted(x)


@NUMBA
@pytest.mark.parametrize("what", ["aggregate", "norm_relu", "pooled", "attend"])
@pytest.mark.parametrize(("way", "dtype"), [("loops", torch.float32)])
def test_any_number_of_threads_gives_the_same_bits(way, dtype, device, what, monkeypatch):
    from legs.kernels import cpu_csr, cpu_threads

    monkeypatch.setattr(cpu_threads, "SIZE_OF_A_THREAD", 1)
    monkeypatch.setattr(cpu_csr, "WORK_OF_A_THREAD", 1)
    given = batch_of(some_graphs(), dtype)
    graphs, nodes = on(device, given), len(given[2])
    z, share = noise(3, nodes, 24, dtype=dtype), noise(nodes, 2, dtype=dtype, seed=1)
    own = [z, *noise(3, 1, 24, dtype=dtype, seed=2)]
    own = [x.clone().requires_grad_() for x in (own if what in ("norm_relu", "pooled") else [z])]
    calls = {
        "aggregate": lambda z: aggregate(z, graphs),
        "norm_relu": lambda z, *layer: norm_relu(z, graphs, *layer),
        "pooled": lambda z, *layer: norm_relu(z, graphs, *layer, share=share),
        "attend": lambda z: attend(z, graphs, 2),
    }
    found, before = [], torch.get_num_threads()
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        try:
            out = calls[what](*own)
            cotangent = noise(*out.shape, dtype=dtype, seed=9)
            found.append([out, *torch.autograd.grad(out, own, cotangent)])
        finally:
            torch.set_num_threads(before)
    for other in found[1:]:
        assert all(a.equal(b) for a, b in zip(found[0], other, strict=True))


@NUMBA
def test_loops_are_for_batches_that_are_worth_compiling_them():
    from legs.kernels import use

    small, large = torch.rand(999, 64), torch.rand(1000, 1)
    assert messages_cpu.applies(large)
    assert not messages_cpu.applies(small)
    assert not messages_cpu.applies(large.half())
    with use("fused"):
        assert messages_cpu.applies(small)
