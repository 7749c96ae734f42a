"""How a network is trained."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch

Precision = Literal["float32", "tf32", "bfloat16", "float64"]
CHOICES = {
    "precision": get_args(Precision),
    "optimizer": ("adam", "adamw"),
    "schedule": ("constant", "cosine"),
}
# Options that 0.1.0 did not have: left out of settings at their default, so that its runs resume.
LATER = {"optimizer": "adam", "schedule": "constant", "warmup": 0, "scale_lr": None}
LATER |= {"metric": None}


@dataclass(frozen=True)
class TrainingOptions:
    """How a network is trained; the paper's defaults but for learning rate and calibration.

    Args:
        lr: learning rate of Adam (default 1e-3; the paper's 1e-4 ends at the same scores after
            three times as many epochs on the sets tried).
        batch_size: graphs in a batch (default 128).
        max_epochs: at most so many epochs (default 1000).
        patience: stop after so many epochs without a better validation loss (default 100).
        validate_every: epochs between validations (default 10).
        weight_decay: of the optimizer (default 0).
        clip: largest norm of the gradient (default ``None``: not clipped).
        balanced: whether rare classes weigh more in the loss (default ``False``).
        calibrate: whether the validation loss of classes is measured at the best scale of the
            scores, which the kept weights then have (default ``True``; see
            :mod:`legs.training.calibration`). The paper's is ``False``.
        precision: ``"float32"`` (default), ``"tf32"`` for float32 with the factors of matrix
            products rounded to ten bits (TensorFloat-32: faster on NVIDIA GPUs from Ampere on, the
            same as float32 elsewhere; scattering kernels and moments are no matrix products and
            stay exact), ``"bfloat16"`` for mixed precision (scattering and our own message passing
            stay in float32), or ``"float64"``.
        seed: of weights, batches and dropout (default 0).
        optimizer: ``"adam"`` (default), or ``"adamw"``, whose weight decay is decoupled.
        schedule: of the learning rate: ``"constant"`` (default), or ``"cosine"`` to zero at
            ``max_epochs``.
        warmup: epochs over which the learning rate rises to its value (default 0).
        scale_lr: learning rate of learned scales (default ``None``: that of all parameters).
        metric: the score of validation graphs that decides when to stop and which weights are
            kept, such as ``"roc_auc"`` (default ``None``: the loss); see
            :meth:`legs.training.Task.scores`.
    """

    lr: float = 1e-3
    batch_size: int = 128
    max_epochs: int = 1000
    patience: int = 100
    validate_every: int = 10
    weight_decay: float = 0.0
    clip: float | None = None
    balanced: bool = False
    calibrate: bool = True
    precision: Precision = "float32"
    seed: int = 0
    optimizer: Literal["adam", "adamw"] = "adam"
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    scale_lr: float | None = None
    metric: str | None = None

    def __post_init__(self) -> None:
        for name in ("lr", "batch_size", "max_epochs", "patience", "validate_every"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)}")
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay must not be negative; got {self.weight_decay}")
        for name in ("clip", "scale_lr"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"{name} must be positive; got {value}")
        if not 0 <= self.warmup < self.max_epochs:
            raise ValueError(f"warmup must be 0 or more and below max_epochs; got {self.warmup}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                names = ", ".join(choices)
                raise ValueError(f"{name} must be one of {names}; got {getattr(self, name)!r}")

    @property
    def dtype(self) -> torch.dtype:
        """Of parameters and node features."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def rate_factor(self, epoch: int) -> float:
        """What the schedule multiplies learning rates with in an epoch, counted from 1.

        >>> options = TrainingOptions(max_epochs=5, schedule="cosine", warmup=2)
        >>> [round(options.rate_factor(epoch), 2) for epoch in range(1, 6)]
        [0.5, 1.0, 1.0, 0.75, 0.25]
        """
        if epoch <= self.warmup:
            return epoch / self.warmup
        if self.schedule == "constant":
            return 1.0
        share = (epoch - 1 - self.warmup) / (self.max_epochs - self.warmup)
        return 0.5 * (1 + math.cos(math.pi * share))

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {k: v for k, v in asdict(self).items() if k not in LATER or v != LATER[k]}
