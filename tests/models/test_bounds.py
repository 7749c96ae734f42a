"""What asks for too much is refused at once, wherever it comes from."""

from __future__ import annotations

import json

import pytest

from legs import Scattering
from legs.cli.options import parse_grid
from legs.io import digest_of
from legs.models import ModelError, create, load_network
from legs.models.saving import DESCRIPTION, check_shapes, check_sizes
from legs.training.cv.protocol import check_grid
from legs.training.methods import check_options


@pytest.mark.parametrize(
    "options, told",
    [
        ({"order": 10**9}, "order is 1000000000"),
        ({"hidden_channels": 10**12}, "hidden_channels is 1000000000000"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"laziness": float("inf")}, "laziness is inf"),
    ],
)
def test_options_and_settings_of_a_grid(options, told):
    with pytest.raises(ValueError, match=told):
        check_options("legs-fcn", options)
    with pytest.raises(ValueError, match=told):
        check_grid(["legs-fcn"], ({}, options))
    with pytest.raises(ValueError, match=told):
        check_sizes(({"lr": 0.1}, options))


@pytest.mark.parametrize(
    "options, told",
    [
        ({"order": 12, "num_scales": 200, "steps": 200}, "order 12 with 200 scales"),
        ({"order": 9, "path_policy": "all", "num_scales": 9}, "order 9 with 9 scales"),
        ({"order": 6, "scales": list(range(1, 100))}, "order 6 with 99 scales"),
    ],
)
def test_numbers_of_paths(options, told):
    with pytest.raises(ValueError, match=told):
        check_options("legs-fcn", options)
    with pytest.raises(ValueError, match=told):
        check_grid(["legs-fcn"], ({}, options))
    with pytest.raises(ValueError, match=told):
        Scattering(2, **options)
    with pytest.raises(ValueError, match="more than 2,000,000 columns"):
        Scattering(10**9)


def test_values_to_choose_from_on_the_command_line():
    with pytest.raises(ValueError, match="order is 1000000000"):
        check_grid(["legs-fcn"], parse_grid(None, ["order=1,1000000000"]))
    with pytest.raises(ValueError, match="'NaN': not a finite number"):
        check_grid(["gcn-legs-fcn"], parse_grid(None, ["dropout=0,NaN"]))


def test_what_models_have_is_not_refused():
    check_options("legs-fcn", {"order": 3, "num_scales": 7, "steps": 32, "dropout": 0.5})
    check_options("gcn", {"hidden_channels": 4096})
    check_grid(["legs-fcn", "legs-rbf"], ({}, {"order": 1}, {"lr": 0.003}))


def test_heads_may_read_very_many_columns():
    check_sizes({"scattering": {"order": 2, "num_scales": 5}, "head": {"in_channels": 500_000}})


def test_layers_of_gigabytes_take_no_memory_to_check():
    check_options("legs-fcn", {"hidden_channels": 10_000_000})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_saved_models_with_what_is_no_number(tmp_path, value):
    create("legs-fcn", 2, 3, dropout=0.5).save(tmp_path)
    file = tmp_path / DESCRIPTION
    described = json.loads(file.read_text())
    text = json.dumps(described["network"])
    assert '"dropout": 0.5' in text
    changed = text.replace('"dropout": 0.5', f'"dropout": {json.dumps(value)}')
    described["network"] = json.loads(changed)
    digests = described.pop("sha256")
    digests[DESCRIPTION] = digest_of(described)
    file.write_text(json.dumps({**described, "sha256": digests}))
    with pytest.raises(ModelError, match="dropout is"):
        load_network(tmp_path)


def test_models_saved_before_there_was_a_bound_on_features():
    known = create("legs-fcn", 1, 2).state_dict()
    old = {name: tensor for name, tensor in known.items() if not name.endswith(".reach")}
    assert len(old) == len(known) - 1
    check_shapes(lambda: create("legs-fcn", 1, 2), old)
