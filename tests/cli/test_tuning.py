"""``--tune`` and ``--grid``: what they take, and what they say to the rest."""

import pytest

from legs.cli import main
from legs.cli.options import parse_grid, parse_settings, parse_tune


def test_values_are_numbers_or_words():
    found = parse_tune(["lr=1e-3, 3e-3", "steps=8", "aggr=mean,max", "gamma=null,0.5", "a-b=true"])
    assert found == {
        "lr": [1e-3, 3e-3],
        "steps": [8],
        "aggr": ["mean", "max"],
        "gamma": [None, 0.5],
        "a_b": [True],
    }
    assert isinstance(found["steps"][0], int)


def test_all_combinations():
    assert parse_grid(tune=["lr=1,2", "dropout=0,0.5"]) == (
        {"lr": 1, "dropout": 0},
        {"lr": 1, "dropout": 0.5},
        {"lr": 2, "dropout": 0},
        {"lr": 2, "dropout": 0.5},
    )
    assert parse_grid() == ({},)
    assert parse_grid('[{"lr": 1}, {}]') == ({"lr": 1}, {})


@pytest.mark.parametrize(
    ("tune", "word"),
    [
        (["lr"], "such as lr=0.001,0.003; got 'lr'"),
        (["lr="], "got 'lr='"),
        (["lr=1,,2"], "got 'lr=1,,2'"),
        (["=1"], "got '=1'"),
        (["2x=1"], "got '2x=1'"),
        (["lr=1", "lr=2"], "gives lr twice"),
        (["lr=0.1,1e-1"], "a value of lr twice: 0.1,1e-1"),
        (["scales=[1,2]"], "use --grid for lists"),
    ],
)
def test_what_is_not_taken(tune, word):
    with pytest.raises(ValueError, match="--tune") as error:
        parse_grid(tune=tune)
    assert word in str(error.value)


@pytest.mark.parametrize("grid", ["{", "{}", "[]", "[1]"])
def test_grids_that_are_none(grid):
    with pytest.raises(ValueError, match="--grid must be"):
        parse_grid(grid)


def test_one_way_at_a_time():
    with pytest.raises(ValueError, match="--tune and --grid"):
        parse_grid("[{}]", ["lr=1"])


@pytest.mark.parametrize("text", ["1_0", "１０", "NaN", "-Infinity", "inf", "nan"])
def test_what_python_alone_takes_for_numbers(text, capsys):
    with pytest.raises(ValueError, match=rf"--set .*{text}.*finite number"):
        parse_settings([f"steps={text}"])
    with pytest.raises(ValueError, match=rf"--tune .*{text}.*finite number"):
        parse_tune([f"lr=0.1,{text}"])
    with pytest.raises(ValueError, match="--grid"):
        parse_grid(f'[{{"lr": {text}}}]')
    assert main(["train", "none.csv", "--lr", text]) == 2
    assert "--lr" in capsys.readouterr().err


def test_numbers_that_are_no_json():
    assert parse_settings(["dropout=.5", "a=[1, 2]", "b=mean", "c=-1"]) == {
        "dropout": 0.5,
        "a": [1, 2],
        "b": "mean",
        "c": -1,
    }
