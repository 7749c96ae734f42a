"""The training loop: repeatable, honest about what it may see, and stopped in time."""

import copy
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from legs.models import available, create
from legs.training import TrainingError, TrainingOptions, fit, loop, methods
from legs.training.checkpoint import load_state
from legs.training.cv.models import Job, Shared, train_networks
from legs.training.inputs import Inputs
from legs.training.methods import BLENDS
from legs.training.task import Task
from tests.training.made import QUICK, assert_same, made_data, made_split, weights_of

GPU = torch.cuda.is_available()
NETWORKS = [name for name in methods() if name not in ("gs-svm", *BLENDS)]
DROPOUT = {"dropout": 0.3}
# Every network on classes; on numbers those that have something of their own to get wrong.
CASES = [(name, "classification") for name in NETWORKS]
CASES += [(name, "regression") for name in ("legs-fixed", "legs-fcn", "legs-rbf", "gin")]
NEVER_STOPS = replace(QUICK, patience=1000)


def trained(name, data=None, options=QUICK, **given):
    data = made_data() if data is None else data
    return fit(data, name, made_split(), options, **given)


def run(options, losses=None, monkeypatch=None, name="baseline", data=None, **given):
    """The loop alone; with ``losses``, these are the validation losses, one after another."""
    data = made_data() if data is None else data
    split = made_split()
    task = Task.of(data, torch.as_tensor(split.train))
    torch.manual_seed(1)
    network = create(name, data.in_channels, len(task.names))
    network.initialize(data.x)
    if losses is not None:
        options = replace(options, calibrate=False)
        told = iter(losses)
        monkeypatch.setattr(Task, "loss", lambda self, out, target: torch.tensor(next(told)))
    snapshots = []

    def report(row):
        snapshots.append(copy.deepcopy(network.state_dict()))

    inputs = Inputs(data, network, torch.device("cpu"))
    state = loop.train(network, inputs, data.y, split, task, options, report=report, **given)
    return network, state, snapshots


@pytest.mark.parametrize("name", NETWORKS)
def test_a_seed_repeats_a_run(name):
    options = DROPOUT if name != "legs-rbf" else None
    torch.manual_seed(5)
    first = trained(name, model_options=options)
    torch.manual_seed(6)  # what the caller has drawn plays no role
    torch.rand(100)
    second = trained(name, model_options=options)
    assert_same(weights_of(first), weights_of(second))
    assert first.state.history == second.state.history
    other = weights_of(trained(name, options=replace(QUICK, seed=1), model_options=options))
    assert any(not torch.equal(a, other[key]) for key, a in weights_of(first).items())


def test_training_leaves_the_callers_random_numbers_alone():
    before = torch.get_rng_state()
    trained("legs-rbf")
    assert torch.equal(torch.get_rng_state(), before)


SCRIPT = """
import json, sys
from legs.models.saving import save_tensors
from tests.training.test_loop import NETWORKS, trained, weights_of

for name in json.loads(sys.argv[2]):
    with open(f"{sys.argv[1]}/{name}", "wb") as file:
        file.write(save_tensors({k: v.contiguous() for k, v in weights_of(trained(name)).items()}))
"""


def test_a_seed_repeats_a_run_in_another_process(tmp_path):
    from safetensors.torch import load_file

    names = ["legs-fcn", "legs-rbf", "gat", "gcn-legs-fixed"]
    arguments = [sys.executable, "-c", SCRIPT, str(tmp_path), json.dumps(names)]
    subprocess.run(arguments, check=True, cwd=Path(__file__).parents[2])
    for name in names:
        assert_same(load_file(tmp_path / name), weights_of(trained(name)))


def changed(data, split, part):
    """Other features, edges' weights aside, and other labels for one part of a split."""
    graphs = torch.as_tensor(getattr(split, part))
    inside = torch.zeros(len(data), dtype=torch.bool)
    inside[graphs] = True
    nodes = torch.repeat_interleave(inside, data.sizes)
    x, y = data.x.clone(), data.y.clone()
    x[nodes] = 100 * torch.randn(int(nodes.sum()), x.shape[1])
    y[inside] = 1 - y[inside] if data.task == "classification" else 50 * y[inside]
    return replace(data, x=x, y=y)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_test_graphs_teach_nothing(name, task):
    data = made_data(task)
    other = changed(data, made_split(), "test")
    assert_same(weights_of(trained(name, data)), weights_of(trained(name, other)))


@pytest.mark.parametrize(("name", "task"), [case for case in CASES if case[0] in available()])
def test_validation_graphs_teach_nothing_but_when_to_stop(name, task):
    """The weights after every epoch are the same; only which are kept may change.

    Calibrated, they also set the scale of the kept scores (``test_stack`` looks at that).
    """
    seen = []
    for part in (None, "validation"):
        data = made_data(task)
        data = data if part is None else changed(data, made_split(), part)
        # One validation, at the end: the last weights are the best ones.
        options = replace(NEVER_STOPS, max_epochs=4, validate_every=4, calibrate=False)
        seen.append(trained(name, data, options))
    assert_same(weights_of(seen[0]), weights_of(seen[1]))
    losses = [fitted.state.history[-1]["validation_loss"] for fitted in seen]
    assert losses[0] != losses[1]


def test_best_weights_are_restored(monkeypatch):
    losses = [0.5, 0.3, 0.4, 0.3, 0.6]
    options = replace(QUICK, max_epochs=10, validate_every=2, patience=100)
    network, state, snapshots = run(options, losses, monkeypatch)
    # Epochs 2, 4, 6, 8, 10 were validated; a tie keeps the earlier weights.
    assert (state.epoch, state.best_epoch, state.best_loss) == (10, 4, pytest.approx(0.3))
    assert_same(network.state_dict(), snapshots[3])
    assert not network.training


@pytest.mark.parametrize(
    ("patience", "every", "losses", "stopped"),
    [
        (4, 2, [3, 2, 2.5, 2.5, 9, 9], 8),  # best at 4; epoch 8 is the fourth without a better one
        (5, 2, [3, 2, 2.5, 2.5, 2.5, 9], 10),  # the fifth is 9, known at the next validation
        (1, 10, [3, 2, 1, 2], 40),  # patience shorter than the wait for a validation
        (3, 1, [1, 2, 2, 0.5, 3, 3, 3], 7),  # a better one starts the count anew
        (100, 7, [1] * 8, 50),  # never: the last epoch is validated too
    ],
)
def test_early_stopping(patience, every, losses, stopped, monkeypatch):
    options = replace(QUICK, max_epochs=50, patience=patience, validate_every=every)
    _, state, snapshots = run(options, [float(x) for x in losses], monkeypatch)
    assert state.epoch == stopped == len(state.history) == len(snapshots)
    assert "validation_loss" in state.history[-1]


def test_losses_are_of_all_graphs():
    """Not means of batch means: the last batch is smaller."""
    data, split = made_data("regression"), made_split()
    data = replace(data, y=data.y.where(torch.rand(60, 3) > 0.3, torch.nan))
    options = replace(QUICK, max_epochs=1, lr=1e-30, batch_size=7)
    network, state, _ = run(options, data=data)
    task = Task.of(data, torch.as_tensor(split.train))
    for part, name in (("train", "train_loss"), ("validation", "validation_loss")):
        some = data.subset(getattr(split, part))
        with torch.no_grad():
            expected = task.loss(network(*some.whole()[:5]), task.targets(some.y))
        assert state.history[0][name] == pytest.approx(float(expected), rel=1e-5)


def test_every_training_graph_is_seen_once_an_epoch():
    split = made_split()
    batches = loop.random_batches(torch.as_tensor(split.train), QUICK, 3)
    assert torch.cat(batches).sort().values.tolist() == split.train.tolist()
    assert max(map(len, batches)) == QUICK.batch_size
    again = loop.random_batches(torch.as_tensor(split.train), QUICK, 4)
    assert not torch.equal(torch.cat(batches), torch.cat(again))


def test_gradients_are_clipped(monkeypatch):
    norms = []
    plain = torch.optim.Adam.step

    def step(self, *args, **kwargs):
        given = [p.grad for group in self.param_groups for p in group["params"]]
        norms.append(float(torch.nn.utils.get_total_norm(given)))
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    run(replace(QUICK, max_epochs=1))
    free, norms = norms, []
    run(replace(QUICK, max_epochs=1, clip=1e-3))
    assert min(free) > 1e-2
    assert max(norms) <= 1e-3 * (1 + 1e-4)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_precisions(name, task):
    """All train to nearly the same losses."""
    data = made_data(task, weighted=True)
    losses = {}
    for precision in ("float64", "float32", "bfloat16", "tf32"):
        options = replace(QUICK, precision=precision, max_epochs=2)
        fitted = trained(name, data, options)
        losses[precision] = fitted.state.history[-1]["validation_loss"]
        assert {w.dtype for w in weights_of(fitted).values()} == {torch.float32}
    assert losses["float32"] == pytest.approx(losses["float64"], rel=0.1)
    assert losses["bfloat16"] == pytest.approx(losses["float64"], rel=0.1)
    # Without a GPU there is no such thing; on one, scattering is not what is rounded.
    assert losses.pop("tf32") == pytest.approx(losses["float32"], rel=0.1 if GPU else 0)
    assert len(set(losses.values())) == 3


@pytest.mark.parametrize("before", ["none", "ieee", "tf32"])
def test_products_in_tf32_within_training_only(before, request, monkeypatch):
    """Of one model and of a stack, and also where training ends with an error."""
    flags = torch.backends.cuda.matmul
    request.addfinalizer(partial(setattr, flags, "fp32_precision", flags.fp32_precision))
    flags.fp32_precision = before
    seen = []

    def look(*given):
        seen.append((flags.fp32_precision, flags.allow_tf32 if before != "tf32" else True))

    data, split, options = made_data(), made_split(), replace(QUICK, precision="tf32")
    fit(data, "legs-fixed", split, options, report=look)
    assert set(seen) == {("tf32", True)}
    assert flags.fp32_precision == before
    jobs = [Job(k, split, {}) for k in range(2)]
    train_networks("legs-fixed", jobs, Shared(data, options), report=look)
    assert seen[-1] == ("tf32", True)
    assert flags.fp32_precision == before
    with monkeypatch.context() as patch, pytest.raises(TrainingError):
        patch.setattr(Task, "terms", nan_loss)
        fit(data, "legs-fcn", split, options)
    assert flags.fp32_precision == before
    seen.clear()
    fit(data, "legs-fixed", split, replace(QUICK, precision="float32"), report=look)
    assert seen[-1][0] == before


def test_losses_are_computed_in_float32_under_bfloat16(monkeypatch):
    seen = set()
    plain = Task.terms

    def terms(self, out, target):
        seen.add(out.dtype)
        return plain(self, out, target)

    monkeypatch.setattr(Task, "terms", terms)
    trained("gcn", options=replace(QUICK, precision="bfloat16"))
    assert seen == {torch.float32}


def nan_loss(self, out, target):
    """Stands in for ``Task.terms``."""
    return out.sum(-1) * torch.nan, torch.ones(len(out))


def test_a_loss_that_is_not_finite_stops_training(tmp_path, monkeypatch):
    monkeypatch.setattr(Task, "terms", nan_loss)
    with pytest.raises(TrainingError, match=r"not a finite number in epoch 1\. Try a smaller"):
        trained("legs-fcn", directory=tmp_path)
    assert not (tmp_path / "checkpoint.bin").exists()


def test_the_last_good_checkpoint_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    plain = Task.terms

    def terms(self, out, target):
        losses, weights = plain(self, out, target)
        return losses * (torch.nan if epoch > 3 else 1), weights

    epoch = 1

    def report(row):
        nonlocal epoch
        epoch = row["epoch"] + 1

    monkeypatch.setattr(Task, "terms", terms)
    with pytest.raises(TrainingError, match=r"epoch 4; the last good checkpoint is .*checkpoint"):
        trained("legs-fcn", directory=tmp_path, report=report)
    settings = json.loads((tmp_path / "settings.json").read_text())
    state = load_state(tmp_path / "checkpoint.bin", settings)
    assert (state.epoch, len(state.history), state.best_epoch) == (3, 3, 2)
    assert all(t.isfinite().all() for t in state.tensors["network"].values())


def test_weights_that_are_not_finite_are_not_saved(tmp_path, monkeypatch):
    """The loss of an epoch may be finite and its last step not."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(TrainingError, match="not a finite number"):
        trained("baseline", options=replace(QUICK, lr=1e37, batch_size=100), directory=tmp_path)
    assert not (tmp_path / "checkpoint.bin").exists()


def test_validation_graphs_without_targets():
    data, split = made_data("regression"), made_split()
    y = data.y.clone()
    y[split.validation] = torch.nan
    with pytest.raises(TrainingError, match="no validation graph has a target"):
        trained("baseline", replace(data, y=y))


def test_batches_without_targets_do_no_harm():
    data, split = made_data("regression"), made_split()
    y = data.y.clone()
    y[split.train[2:]] = torch.nan
    fitted = trained("legs-fcn", replace(data, y=y), replace(QUICK, batch_size=4))
    assert np.isfinite([row["train_loss"] for row in fitted.state.history]).all()


def test_layers_check_graphs_again_after_training():
    network = trained("legs-fcn").predictor.network
    assert network.scattering.validate
    with pytest.raises(ValueError, match="directed"):
        network(torch.rand(2, 2), torch.tensor([[0], [1]]))


def test_a_metric_decides_what_is_kept():
    data, options = made_data("regression"), TrainingOptions(max_epochs=12, validate_every=1)
    split, rows = made_split(), []
    options = replace(options, lr=0.05, metric="mae:nodes")
    fitted = fit(data, "baseline", split, options, report=rows.append)
    scores = []
    for epoch in range(1, 13):  # the same run, stopped there
        one = replace(options, max_epochs=epoch, validate_every=epoch)
        scores.append(fit(data, "baseline", split, one).scores["validation"]["mae:nodes"])
    assert fitted.state.best_epoch == 1 + int(np.argmin(scores))
    assert fitted.scores["validation"]["mae:nodes"] == pytest.approx(min(scores))
    assert "metric" not in TrainingOptions().to_json()  # runs of 0.1.0 resume
    with pytest.raises(ValueError, match="called 'auc'; choose one of whitened_mse, r2"):
        fit(data, "baseline", split, replace(options, metric="auc"))
    with pytest.raises(ValueError, match="gs-svm has no epochs to choose"):
        fit(data, "gs-svm", split, options)
