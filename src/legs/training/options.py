"""How a network is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch

Precision = Literal["float32", "tf32", "bfloat16", "float64"]


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
        weight_decay: of Adam (default 0).
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

    def __post_init__(self) -> None:
        for name in ("lr", "batch_size", "max_epochs", "patience", "validate_every"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)}")
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay must not be negative; got {self.weight_decay}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive; got {self.clip}")
        if self.precision not in get_args(Precision):
            names = ", ".join(get_args(Precision))
            raise ValueError(f"precision must be one of {names}; got {self.precision!r}")

    @property
    def dtype(self) -> torch.dtype:
        """Of parameters and node features."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)
