"""Whole networks, by name or composed by hand; saving and loading."""

from legs.models.catalogue import available, create
from legs.models.deep import DeepLEGS, DeepNetwork
from legs.models.deep_gnn import DeepGNN
from legs.models.gnn import GNN, Baseline, Snowball
from legs.models.legs_net import MPLEGS, Ensemble, LEGSNet
from legs.models.network import Network
from legs.models.saving import ModelError, load_network

__all__ = [
    "GNN",
    "MPLEGS",
    "Baseline",
    "DeepGNN",
    "DeepLEGS",
    "DeepNetwork",
    "Ensemble",
    "LEGSNet",
    "ModelError",
    "Network",
    "Snowball",
    "available",
    "create",
    "load_network",
]
