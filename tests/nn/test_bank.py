"""The filter bank of a scattering module by itself, against dense matrices in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legs import Scattering
from tests.strategies import Batch, batches

OPTIONS = [
    {},
    {"scales": "dyadic"},
    {"scales": [1, 3, 7], "laziness": 0.7},
    {"learn_laziness": "channel"},
    {"num_scales": 3, "ordering": "softmax"},
]


def dense_walk(edge_index, edge_weight, nodes, laziness):
    """The lazy walk and the degrees, from their definition."""
    weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
    matrix = torch.zeros(nodes, nodes, dtype=torch.float64)
    matrix.index_put_((edge_index[1], edge_index[0]), weight.double(), accumulate=True)
    degree = matrix.sum(0)
    matrix += torch.diag((degree == 0).double())
    degree = torch.where(degree > 0, degree, 1.0)
    one = torch.eye(nodes, dtype=torch.float64)
    return laziness * one + (1 - laziness) * matrix / degree, degree


def dense_bank(module, walk):
    """Differences of mixtures of powers, ``[bands, nodes, nodes]``."""
    powers = [torch.eye(len(walk), dtype=torch.float64)]
    for _ in range(module.selection.steps):
        powers.append(powers[-1] @ walk)
    rows = torch.einsum("jt,tab->jab", module.scale_weights().detach(), torch.stack(powers[1:]))
    smooth = torch.cat([powers[0].unsqueeze(0), rows])
    return torch.cat([smooth[:-1] - smooth[1:], smooth[-1:]])


@pytest.fixture
def graph():
    torch.manual_seed(0)
    upper = torch.triu(torch.rand(9, 9) < 0.35, 1)
    upper[8] = upper[:, 8] = False  # a node without neighbors
    edge_index = (upper | upper.T).nonzero().T
    full = torch.rand(9, 9, dtype=torch.float64) + 0.2
    return edge_index, (full + full.T)[edge_index[0], edge_index[1]]


def made(options):
    torch.manual_seed(1)
    module = Scattering(2, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return module


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_bank_and_matrices_are_those_of_the_definition(graph, options):
    module, (edge_index, weight) = made(options), graph
    x = torch.rand(9, 2, dtype=torch.float64)
    laziness = torch.as_tensor(module.walk.laziness, dtype=torch.float64)
    bands, matrices = module.bank(x, edge_index, weight), module.matrices(edge_index, weight, 9)
    for channel, value in enumerate(laziness.detach().expand(2)):
        expected = dense_bank(module, dense_walk(edge_index, weight, 9, value)[0])
        own = matrices[channel] if laziness.dim() else matrices
        torch.testing.assert_close(own.detach(), expected, rtol=0, atol=1e-10)
        image = torch.einsum("bij,j->ib", expected, x[:, channel])
        torch.testing.assert_close(bands[..., channel].detach(), image, rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_responses_are_those_of_the_matrices(graph, options):
    module, (edge_index, weight) = made(options), graph
    walk, degree = dense_walk(edge_index, weight, 9, float(module.walk.laziness))
    root = degree.sqrt()
    eigenvalues, vectors = torch.linalg.eigh(walk * root / root.unsqueeze(1))
    matrices = module.matrices(edge_index, weight, 9).detach() * root / root.unsqueeze(1)
    diagonal = torch.einsum("ik,bij,jk->bk", vectors, matrices, vectors)
    found = module.responses(eigenvalues).detach()
    torch.testing.assert_close(found, diagonal, rtol=0, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(batches(), st.sampled_from(OPTIONS[:4]))
def test_inverse_of_a_bank(batch: Batch, options):
    module = made(options)
    x = torch.randn(batch.num_nodes, 2, dtype=torch.float64, generator=torch.manual_seed(0))
    weight = None if batch.edge_weight is None else batch.edge_weight.double()
    again = module.inverse(module.bank(x, batch.edge_index, weight), batch.edge_index, weight)
    torch.testing.assert_close(again, x, rtol=1e-8, atol=1e-8 * float(x.abs().max()))


def test_inverse_in_float32(graph):
    module, (edge_index, weight) = made({}).float(), graph
    x = torch.randn(9, 2)
    again = module.inverse(module.bank(x, edge_index, weight.float()), edge_index, weight.float())
    torch.testing.assert_close(again, x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_inverse_of_perturbed_bands_is_the_pseudo_inverse(graph, options):
    module, (edge_index, weight) = made(options), graph
    _, degree = dense_walk(edge_index, weight, 9, 0.5)
    bands = module.bank(torch.rand(9, 2, dtype=torch.float64), edge_index, weight).detach()
    bands = bands + 0.1 * torch.randn_like(bands)
    # In square roots of the metric, the weighted problem is an ordinary one.
    matrix = module.matrices(edge_index, weight, 9).detach() * degree.rsqrt().unsqueeze(1)
    sides = (bands * degree.rsqrt().view(-1, 1, 1)).movedim(1, 0)
    expected = torch.linalg.pinv(matrix.flatten(0, 1)) @ sides.flatten(0, 1)
    found = module.inverse(bands, edge_index, weight)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)
