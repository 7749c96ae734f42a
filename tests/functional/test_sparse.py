import pytest
import torch
from torch.func import vmap

from legs.functional.sparse import Pattern, build_pattern, spmm


def example(rows=4, columns=6, entries=9):
    row = torch.randint(rows, (entries,))
    col = torch.randint(columns, (entries,))
    pattern, order = build_pattern(row, col, rows, columns)
    values = torch.rand(entries, dtype=torch.float64)
    dense = torch.zeros(rows, columns, dtype=torch.float64)
    dense.index_put_((row, col), values, accumulate=True)
    return pattern, values[order], dense


@pytest.mark.parametrize("entries", [0, 1, 9, 40])
def test_against_dense(entries):
    pattern, values, dense = example(entries=entries)
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(spmm(pattern, values, x), torch.tensordot(dense, x, 1))
    turned = spmm(pattern.transpose(), values[pattern.to_columns], x[:4])
    torch.testing.assert_close(turned, torch.tensordot(dense.T, x[:4], 1))


def test_transpose_twice_is_the_same():
    pattern, _, _ = example()
    twice = pattern.transpose().transpose()
    assert all(torch.equal(a, b) for a, b in zip(twice[:8], pattern[:8], strict=True))
    assert twice.product is pattern.product
    assert isinstance(twice, Pattern)
    places = torch.arange(9)
    assert torch.equal(pattern.to_columns[pattern.to_rows], places)


def test_gradients_first_and_second():
    pattern, values, _ = example()
    inputs = (values.requires_grad_(), torch.randn(6, 2, dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(lambda v, x: spmm(pattern, v, x), inputs)
    assert torch.autograd.gradgradcheck(lambda v, x: spmm(pattern, v, x), inputs)


@pytest.mark.parametrize("dims", [(None, 0), (None, 2), (0, None), (0, 1)])
def test_vmap(dims):
    pattern, values, _ = example()
    values = torch.rand(3, 9, dtype=torch.float64) if dims[0] is not None else values
    shape = [6, 2]
    if dims[1] is not None:
        shape.insert(dims[1], 3)
    x = torch.randn(shape, dtype=torch.float64)
    found = vmap(lambda v, x: spmm(pattern, v, x), in_dims=dims)(values, x)
    for i in range(3):
        v = values if dims[0] is None else values[i]
        part = x if dims[1] is None else x.select(dims[1], i)
        torch.testing.assert_close(found[i], spmm(pattern, v, part))


def test_graphs_cannot_be_mapped_over():
    pattern, values, _ = example()
    stacked = [torch.stack([t, t]) for t in pattern[:8]]
    x = torch.ones(6, 1, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="graph must be the same"):
        vmap(lambda *p: spmm(Pattern(*p), values, x))(*stacked)
