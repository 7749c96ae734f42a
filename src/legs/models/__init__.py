"""Whole networks, by name or composed by hand; saving and loading."""

from legs.models.baseline import Baseline
from legs.models.catalogue import available, create
from legs.models.deep import DeepLEGS
from legs.models.ensemble import Ensemble
from legs.models.gnn import GNN
from legs.models.legs_net import LEGSNet
from legs.models.mp_legs import MPLEGS
from legs.models.network import Network
from legs.models.saving import ModelError, load_network
from legs.models.snowball import Snowball

__all__ = [
    "GNN",
    "MPLEGS",
    "Baseline",
    "DeepLEGS",
    "Ensemble",
    "LEGSNet",
    "ModelError",
    "Network",
    "Snowball",
    "available",
    "create",
    "load_network",
]
