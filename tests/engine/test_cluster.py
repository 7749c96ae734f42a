"""A cluster of two nodes, of which one is killed in the middle: time is lost, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from legs.data import load
from legs.engine import LocalEngine, open_engine
from legs.inference.embed import embed_folder, open_embedder
from legs.training import CVOptions, TrainingOptions, cross_validate
from tests.cli.molecules import rows, write
from tests.data.tu_sets import write_zip
from tests.robustness.made import tu_parts

pytestmark = pytest.mark.long
METHODS = ["baseline", "legs-fcn", "gs-svm", "gcn-legs-fixed"]


class Nodes:
    """Two nodes with a core each; the second can be killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.second: Any = self.cluster.add_node(num_cpus=1)
        self.cluster.wait_for_nodes()
        self.address = self.cluster.address

    def kill(self) -> None:
        """Kills the second node, once: its scheduler, its store and its workers."""
        if self.second is not None:
            self.cluster.remove_node(self.second, allow_graceful=False)
            self.second = None

    @property
    def killed(self) -> bool:
        return self.second is None


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    pytest.importorskip("ray", reason="the cluster is Ray's")
    found = Nodes()
    yield found
    found.cluster.shutdown()


def test_embedding(nodes: Nodes, tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="the table holds SMILES")
    some = [{**row, "name": f"m{k}"} for k, row in enumerate(rows() * 100)]
    data = write(tmp_path / "data.csv", ("name", "smiles"), some)
    data.write_text(data.read_text().replace("m1234,", "m1234,C1").replace("m77,", "m77;"))
    embedder = open_embedder("legs-fixed")
    more: dict[str, Any] = {"part": 100, "on_error": "skip"}
    embed_folder(embedder, data, tmp_path / "local", engine=LocalEngine(1), **more)

    def told(done: int) -> None:
        if done >= 500:
            nodes.kill()

    with open_engine("ray", nodes.address) as engine:
        assert engine.workers == 2
        done = embed_folder(embedder, data, tmp_path / "ray", engine=engine, report=told, **more)
        assert nodes.killed
        assert engine.workers == 1
    assert (done.rows, done.skipped) == (4000, 2)
    local, spread = (pd.read_parquet(tmp_path / name) for name in ("local", "ray"))
    assert spread["row"].tolist() == list(range(4000))
    pd.testing.assert_frame_equal(local, spread, check_exact=True)
    for name in ("_bad_rows.csv", "_done.json", "_settings.json"):
        assert (tmp_path / "local" / name).read_bytes() == (tmp_path / "ray" / name).read_bytes()


def test_cross_validation(nodes: Nodes, tmp_path: Path) -> None:
    write_zip(tmp_path / "SMALL.zip", tu_parts(), name="SMALL")
    data = load(tmp_path / "SMALL.zip")
    training = TrainingOptions(max_epochs=60)
    options = CVOptions(folds=4, training=training, grid=({"lr": 0.01}, {"lr": 0.001}))
    more: dict[str, Any] = {"strategy": "stacked"}
    alone = cross_validate(data, METHODS, options, directory=tmp_path / "alone", **more)
    with open_engine("ray", nodes.address) as engine:
        done = []

        def told(facts: Any) -> None:
            done.append(facts.done)
            if facts.done >= 4:
                nodes.kill()

        spread = cross_validate(
            data,
            METHODS,
            options,
            directory=tmp_path / "ray",
            engine=engine,
            progress=told,
            **more,
        )
        assert nodes.killed
        assert done == sorted(done)
    for one, other in zip(alone.methods, spread.methods, strict=True):
        assert (one.scores, one.chosen, one.losses) == (other.scores, other.chosen, other.losses)
        for found, wanted in zip(other.predictions, one.predictions, strict=True):
            assert torch.equal(found, wanted)
