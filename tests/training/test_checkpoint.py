"""A run that was interrupted goes on where it was, or says why it cannot."""

import hashlib
import json
from dataclasses import replace

import pytest
import torch

from legs.models import ModelError
from legs.training import fit, loop
from legs.training.checkpoint import State, check_settings, load_state, save_state
from tests.training.made import QUICK, assert_same, made_data, made_split, weights_of

OPTIONS = replace(QUICK, max_epochs=8, patience=6)


class Killed(Exception):
    pass


def run(folder, name="legs-fcn", stop_after=None, options=OPTIONS, **given):
    """A run that dies after so many epochs, those of an ensemble's parts included."""
    done = 0

    def report(row):
        nonlocal done
        done += 1
        if done == stop_after:
            raise Killed

    data, split = given.pop("data", made_data()), made_split()
    return fit(data, name, split, options, directory=folder, report=report, **given)


def state_of(folder):
    settings = json.loads((folder / "settings.json").read_text())
    return load_state(folder / "checkpoint.bin", settings)


@pytest.mark.parametrize(
    ("name", "options", "stops"),
    [
        ("legs-fcn", {"dropout": 0.4}, [1, 2, 5, 8]),
        ("legs-rbf", {}, [1, 4]),
        ("legs-fixed", {"dropout": 0.4}, [3]),
        ("gat", {"dropout": 0.4}, [3]),
        ("mp-legs-fcn", {}, [3]),
        ("gcn-legs-fcn", {"dropout": 0.4}, [1, 4, 9, 12, 20, 24]),
    ],
)
def test_interrupted_and_resumed_is_undisturbed(name, options, stops, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    # Patience is out of reach: all epochs run, so that the stops above fall where they say.
    given = {"model_options": options, "options": replace(OPTIONS, patience=100)}
    undisturbed = run(tmp_path / "undisturbed", name, **given)
    for stop in stops:
        folder = tmp_path / str(stop)
        with pytest.raises(Killed):
            run(folder, name, stop, **given)
        resumed = run(folder, name, **given)
        assert_same(weights_of(resumed), weights_of(undisturbed))
        assert resumed.state.history == undisturbed.state.history
        assert resumed.state.best_epoch == undisturbed.state.best_epoch
        assert (folder / "metrics.csv").read_bytes() == (
            tmp_path / "undisturbed" / "metrics.csv"
        ).read_bytes()


def test_epochs_after_the_last_checkpoint_are_done_again(tmp_path, monkeypatch):
    """Only the first epoch was saved when the run died after the fifth."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 1e9)  # however long an epoch takes
    with pytest.raises(Killed):
        run(tmp_path, stop_after=5)
    assert state_of(tmp_path).epoch == 1
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(Killed):
        run(tmp_path, stop_after=4)
    assert state_of(tmp_path).epoch == 4
    assert_same(weights_of(run(tmp_path)), weights_of(run(None)))


def test_killed_many_times(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    for _ in range(4):
        with pytest.raises(Killed):
            run(tmp_path, "gin", 2, model_options={"dropout": 0.2})
    resumed = run(tmp_path, "gin", model_options={"dropout": 0.2})
    assert_same(weights_of(resumed), weights_of(run(None, "gin", model_options={"dropout": 0.2})))


def test_a_finished_run_is_not_trained_again(tmp_path):
    first = run(tmp_path)
    seen = []
    again = fit(
        made_data(), "legs-fcn", made_split(), OPTIONS, directory=tmp_path, report=seen.append
    )
    assert seen == []
    assert_same(weights_of(again), weights_of(first))


def test_early_stopping_is_remembered(tmp_path, monkeypatch):
    """A run that stopped early does not go on when called again."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    options = replace(OPTIONS, max_epochs=60, patience=2, lr=0.3)
    first = run(tmp_path, options=options)
    assert first.state.epoch < 60
    assert run(tmp_path, options=options).state.epoch == first.state.epoch


def test_a_run_in_float64_resumes(tmp_path):
    options = replace(OPTIONS, precision="float64")
    with pytest.raises(Killed):
        run(tmp_path, stop_after=2, options=options)
    assert {t.dtype for t in state_of(tmp_path).tensors["network"].values()} == {torch.float64}
    assert_same(weights_of(run(tmp_path, options=options)), weights_of(run(None, options=options)))


def small_state():
    tensors = {
        "network": {"weight": torch.randn(3, 2), "norm/odd.name": torch.tensor(2)},
        "adam": {"0.step": torch.tensor(7.0), "0.exp_avg": torch.zeros(0)},
    }
    return State(7, 5, 0.1 + 0.2, [{"epoch": 7, "train_loss": 1 / 3}], tensors)


def test_round_trip(tmp_path):
    path, state = tmp_path / "state", small_state()
    assert load_state(path, {}) is None
    save_state(path, state, {"a": (1, 2)})
    again = load_state(path, {"a": [1, 2]})
    assert vars(again).keys() == vars(state).keys()
    assert (again.epoch, again.best_epoch, again.best_loss) == (7, 5, state.best_loss)
    assert again.history == state.history
    for group, tensors in state.tensors.items():
        assert_same(again.tensors[group], tensors)
    fresh = State(tensors={"network": {}})
    save_state(path, fresh, {})
    assert load_state(path, {}).best_loss == float("inf")


def test_every_damage_is_seen(tmp_path):
    path = tmp_path / "checkpoint.bin"
    save_state(path, small_state(), {"a": 1})
    good = path.read_bytes()
    header = int.from_bytes(good[32:40], "little")
    places = {
        "digest": [0, 31],
        "length of the header": [32, 36, 39],
        "header": [40, 40 + header // 2, 39 + header],
        "payload": [40 + header, len(good) - 1],
    }
    for place in (p for some in places.values() for p in some):
        for flip in (0x01, 0x80):
            path.write_bytes(good[:place] + bytes([good[place] ^ flip]) + good[place + 1 :])
            with pytest.raises(ModelError, match=r"damaged.*delete it to start again"):
                load_state(path, {"a": 1})
    for size in (0, 10, 32, 36, 40 + header // 2, 40 + header, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(ModelError, match="damaged"):
            load_state(path, {"a": 1})
    path.write_bytes(good + b"0")
    with pytest.raises(ModelError, match="damaged"):
        load_state(path, {"a": 1})
    path.write_bytes(good)
    assert load_state(path, {"a": 1}).epoch == 7


def test_files_of_other_programs(tmp_path):
    """The digest fits, but what it covers is no checkpoint."""
    from safetensors.torch import save

    path = tmp_path / "checkpoint.bin"
    contents = [b"", b"\0" * 8, b"no safetensors", save({"a": torch.zeros(1)})]
    contents.append(save({"a": torch.zeros(1)}, metadata={"state": "{"}))
    for content in contents:
        path.write_bytes(hashlib.sha256(content).digest() + content)
        with pytest.raises(ModelError, match="damaged"):
            load_state(path, {})


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"name": "gcn"}, "model"),
        ({"options": replace(OPTIONS, lr=0.1, seed=3)}, r"training\.lr, training\.seed"),
        ({"model_options": {"order": 1}}, r"model_options\.order"),
        ({"data": made_data(seed=1)}, "data"),
        ({"data": made_data(seed=1), "name": "baseline"}, "data, model"),
    ],
)
@pytest.mark.parametrize("killed", [True, False])
def test_changed_settings_are_named(given, changed, killed, tmp_path):
    if killed:
        with pytest.raises(Killed):
            run(tmp_path, stop_after=2)
    else:
        run(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ModelError, match=rf"other settings \({changed}\)"):
        run(tmp_path, **given)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_changed_split_is_named(tmp_path):
    run(tmp_path)
    train, validation, test = made_split()
    with pytest.raises(ModelError, match=r"other settings \(split\)"):
        fit(
            made_data(),
            "legs-fcn",
            (type(made_split())(train, test, validation)),
            OPTIONS,
            directory=tmp_path,
        )


def test_settings_of_a_run_without_checkpoint_are_checked_too(tmp_path):
    fit(made_data(), "gs-svm", made_split(), OPTIONS, directory=tmp_path)
    with pytest.raises(ModelError, match=r"other settings \(model\)"):
        run(tmp_path)


def test_options_that_are_no_json_values_resume(tmp_path):
    """Tuples come back from JSON as lists; that is not another setting."""
    given = {"model_options": {"scales": (1, 2, 4)}}
    with pytest.raises(Killed):
        run(tmp_path, stop_after=3, **given)
    assert_same(weights_of(run(tmp_path, **given)), weights_of(run(None, **given)))


def test_nested_settings():
    check_settings(None, {"a": {"b": [1, 2]}}, {"a": {"b": (1, 2)}})
    with pytest.raises(ModelError, match=r"\(a\.b, c\)"):
        check_settings(None, {"a": {"b": 1}, "c": {"d": 1}}, {"a": {"b": 2}})


def test_a_checkpoint_of_another_network(tmp_path):
    """The settings agree, but not the weights: the program has changed."""
    run(tmp_path)
    settings = json.loads((tmp_path / "settings.json").read_text())
    state = state_of(tmp_path)
    state.tensors["network"]["head.hidden.weight"] = torch.zeros(1, 1)
    save_state(tmp_path / "checkpoint.bin", state, settings)
    with pytest.raises(ModelError, match="of another network"):
        run(tmp_path)


def test_leftovers_of_an_interrupted_write_do_no_harm(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, stop_after=2)
    (tmp_path / ".checkpoint.bin.abc").write_bytes(b"half a checkpoint")
    assert_same(weights_of(run(tmp_path)), weights_of(run(None)))
