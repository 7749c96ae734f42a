"""Scattering as PyTorch modules."""

from legs.nn.attention import Attention
from legs.nn.batch_norm import GraphBatchNorm, synchronized
from legs.nn.columns import Column
from legs.nn.fcn import FCN
from legs.nn.feature_scale import FeatureScale
from legs.nn.input_scale import InputScale
from legs.nn.moments import Moments
from legs.nn.rbf import RBF
from legs.nn.readout import Readout
from legs.nn.scale_selection import ScaleSelection
from legs.nn.scattering import Scattering
from legs.nn.transforms import AddScattering
from legs.nn.walk import LazyWalk
from legs.nn.wavelet_conv import WaveletConv

__all__ = [
    "FCN",
    "RBF",
    "AddScattering",
    "Attention",
    "Column",
    "FeatureScale",
    "GraphBatchNorm",
    "InputScale",
    "LazyWalk",
    "Moments",
    "Readout",
    "ScaleSelection",
    "Scattering",
    "WaveletConv",
    "synchronized",
]
