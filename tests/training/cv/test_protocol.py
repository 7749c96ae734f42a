"""The tuning grid: which settings are trained as one, and what is refused."""

import re

import pytest

from legs.training.cv.protocol import check_grid, grid_of, setting_name, stacks
from legs.training.methods import BLENDS, methods, options_of


def test_all_combinations_in_order():
    grid = grid_of({"lr": [1, 2], "dropout": [0, 0.5], "aggr": ["mean"]})
    assert [setting_name(setting) for setting in grid] == [
        "lr=1, dropout=0, aggr=mean",
        "lr=1, dropout=0.5, aggr=mean",
        "lr=2, dropout=0, aggr=mean",
        "lr=2, dropout=0.5, aggr=mean",
    ]
    assert stacks(grid) == [[0, 2], [1, 3]]
    assert grid_of({}) == ({},)


def test_stacks_hold_every_setting_once():
    grid = [{"steps": 8, "lr": 1}, {"lr": 2}, {"lr": 3, "steps": 8}, {}, {"steps": 4}]
    assert stacks(grid) == [[0, 2], [1, 3], [4]]


def test_names_of_values():
    assert setting_name({"scales": [1, 2], "lowpass": True, "gamma": None, "lr": 1e-05}) == (
        "scales=[1, 2], lowpass=true, gamma=null, lr=1e-05"
    )


def test_every_method_says_what_it_takes():
    for method in methods():
        taken = options_of(method)
        assert (taken == []) == (method == "gs-svm")
        assert not taken or "dropout" in taken or method in BLENDS
    assert "num_scales" in options_of("legs-fcn")
    assert "scales" not in options_of("legs-fixed")  # the name fixes them
    assert "laziness" not in options_of("gcn")


@pytest.mark.parametrize(
    ("names", "setting", "words"),
    [
        (["gcn"], {"laziness": 0.5}, ["gcn", "'laziness'", "lr, ", "hidden_channels"]),
        (["legs-fcn", "gin"], {"steps": 8}, ["gin", "'steps'", "dropout"]),
        (["legs-fixed"], {"scales": "learned"}, ["legs-fixed", "'scales'", "num_scales"]),
        (["gcn-legs-fcn"], {"steps": 8}, ["'steps'", "it takes lr, hidden_channels, dropout"]),
        (["legs-fcn"], {"droput": 0.5}, ["'droput'", "dropout"]),
        (["gs-svm"], {"lr": 1}, ["gs-svm takes no options", "C and gamma"]),
        (["gcn"], {"lr": "fast"}, ["lr must be a positive number", "'fast'"]),
        (["gcn"], {"lr": 0}, ["lr must be a positive number", "0"]),
        (["gcn"], {"lr": True}, ["lr must be a positive number"]),
        (["gcn"], {"lr": float("nan")}, ["lr must be a positive number", "nan"]),
        (["legs-fcn"], {"dropout": "lots"}, ["legs-fcn", "lots"]),
        (["legs-fcn"], {"level": "node"}, ["nodes"]),
        (["gcn-legs-fcn"], {"dropout": "lots"}, ["gcn-legs-fcn", "dropout='lots'"]),
        (["auto"], {}, ["auto has inner folds of its own"]),
        (["baselin"], {}, ["baselin", "did you mean 'baseline'"]),
    ],
)
def test_what_a_method_does_not_take(names, setting, words):
    with pytest.raises(ValueError, match=re.escape(words[0])) as error:
        check_grid(names, [{}, setting])
    for word in words:
        assert word in str(error.value)


def test_what_is_taken():
    check_grid([m for m in methods() if m not in BLENDS], [{"lr": 1}, {"lr": 0.5}])
    check_grid(["gs-svm"], [{}])
    check_grid(["gs-svm", "legs-fcn"], [{"laziness": 0.7, "steps": 8, "num_scales": 4}])
    with pytest.raises(ValueError, match="no settings"):
        check_grid(["gcn"], [])
