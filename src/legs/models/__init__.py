"""Whole networks."""

from legs.models.legs_net import LEGSNet

__all__ = ["LEGSNet"]
