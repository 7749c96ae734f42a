"""The loss of a stack is that of every model by itself."""

from __future__ import annotations

import pytest
import torch

from legs.training.stacked.loss import StackedLoss
from legs.training.task import Task
from tests.training.made import made_data

INDEX = torch.tensor([3, 0, 41, 17, 59, 22, 8])


def case(task, balanced):
    """Three tasks with scales of their own, outputs, and masks: all, some, none."""
    data = made_data(task)
    y = data.y.clone()
    if task == "regression":
        y[3, 1] = y[17] = float("nan")
    trains = [torch.arange(40), torch.arange(10, 60), torch.arange(0, 60, 3)]
    tasks = [Task.of(data, train, balanced) for train in trains]
    generator = torch.Generator().manual_seed(0)
    width = 2 if task == "classification" else 3
    out = torch.randn(3, len(INDEX), width, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0, 1], [0] * 7]).double()
    y = y if task == "classification" else y.double()
    return tasks, y, out, mask


@pytest.mark.parametrize(
    ("task", "balanced"),
    [("classification", False), ("classification", True), ("regression", False)],
)
def test_as_by_task(task, balanced):
    tasks, y, out, mask = case(task, balanced)
    loss = StackedLoss(tasks, y, torch.float64)
    out.requires_grad_()
    total, count = loss.total(out, INDEX, mask)
    (found,) = torch.autograd.grad(total, out)
    expected = torch.zeros((), dtype=torch.float64)
    for k, (own, inside) in enumerate(zip(tasks, mask.bool(), strict=True)):
        terms, weights = own.terms(out[k][inside], own.targets(y[INDEX][inside]))
        torch.testing.assert_close(count[k], weights.sum().double())
        expected = expected + terms.sum() / weights.sum().clamp_min(1e-12)
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(found, torch.autograd.grad(expected, out)[0])
    assert (found[2] == 0).all()
    assert (found[1][mask[1] == 0] == 0).all()
    assert found.isfinite().all()


def test_targets_are_whitened_in_their_own_precision():
    """Bit for bit as for one model: a difference in the last place would grow in training."""
    tasks, y, out, mask = case("regression", balanced=False)
    y = y.float()
    loss = StackedLoss(tasks, y, torch.float64)
    out = out[:1].clone().requires_grad_()
    loss.keep(torch.tensor([0]))
    (found,) = torch.autograd.grad(loss.total(out, INDEX, mask[:1])[0], out)
    target = tasks[0].targets(y[INDEX]).double()
    known = ~target.isnan()
    expected = torch.where(known, 2 * (out[0] - target.nan_to_num()) / known.sum(), 0.0)
    torch.testing.assert_close(found[0], expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_terms_of_some_models_and_of_those_that_are_kept(task):
    tasks, y, out, _ = case(task, balanced=task == "classification")
    loss = StackedLoss(tasks, y, torch.float64)
    chosen = torch.tensor([2, 0])
    expected = [tasks[k].terms(out[k], tasks[k].targets(y[INDEX])) for k in chosen]
    before = loss.terms(out[chosen], INDEX, chosen)
    loss.keep(chosen)
    after = loss.terms(out[chosen], INDEX, torch.tensor([0, 1]))
    for found in (before, after):
        for k in range(2):
            torch.testing.assert_close(found[0][k], expected[k][0])
            torch.testing.assert_close(found[1][k], expected[k][1].double())
