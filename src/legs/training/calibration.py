r"""Class scores brought to the right scale on validation graphs.

Long before it stops getting better, a network becomes overconfident: the cross-entropy of its
validation graphs rises while more and more of them are classified correctly. So the loss that
decides when to stop is measured at the scale :math:`\beta` of the scores :math:`z` that suits the
validation graphs best (temperature scaling, Guo et al. 2017, with :math:`\beta = 1/T`),

.. math::
    \min_{\beta \le 1} \; \frac{\sum_i w_i \big(\log \sum_k e^{\beta z_{ik}} - \beta z_{i y_i}\big)}
                       {\sum_i w_i} ,

which is convex in :math:`\beta` and minimized by bisection. The best weights have :math:`\beta` in
their last layer. Scores are only ever toned down: a few validation graphs without an error are no
reason to be more confident.

Continuous targets have intervals instead, see :func:`half_widths`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LEAST, MOST = 1 / 64, 1.0
HALVINGS = 50
LEVEL = 0.9


def calibrate(out: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The best scale of class scores, and the loss at it, ``[...]`` each, in float64.

    ``out`` are scores, ``[..., graphs, classes]``; a graph of ``weight`` zero is left out.

    >>> sure = torch.tensor([[9.0, 0.0], [9.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    >>> scale, loss = calibrate(sure, torch.tensor([0, 0, 1, 1]), torch.ones(4))
    >>> round(float(scale), 3), round(float(loss), 3)  # three of four are right
    (0.122, 0.562)
    """
    scores, weight = out.double(), weight.double()
    weight = weight / weight.sum(-1, keepdim=True).clamp_min(1e-300)
    true = scores.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    low = scores.new_full(scores.shape[:-2], LEAST)
    high = torch.full_like(low, MOST)
    for _ in range(HALVINGS):
        middle = (low * high).sqrt()
        share = torch.softmax(middle[..., None, None] * scores, -1)
        slope = (weight * ((share * scores).sum(-1) - true)).sum(-1)
        low, high = torch.where(slope < 0, middle, low), torch.where(slope < 0, high, middle)
    scale = (low * high).sqrt()
    logs = torch.log_softmax(scale[..., None, None] * scores, -1)
    return scale, -(weight * logs.gather(-1, target.unsqueeze(-1)).squeeze(-1)).sum(-1)


def half_widths(answers: Tensor, y: Tensor, level: float = LEVEL) -> tuple[float | None, ...]:
    r"""Half-widths of intervals that hold a share ``level`` of new values, one per target.

    Split conformal prediction: of :math:`n` graphs that the model was not trained on, the
    :math:`\lceil (n + 1)\,\mathrm{level} \rceil`-th smallest absolute error. ``None`` where these
    are too few.

    >>> half_widths(torch.zeros(19, 1), torch.arange(19.0).unsqueeze(1))
    (17.0,)
    """
    widths: list[float | None] = []
    for error in (answers.double() - y.double()).abs().T:
        error = error[~error.isnan()].sort().values
        place = math.ceil((len(error) + 1) * level)
        widths.append(float(error[place - 1]) if 0 < place <= len(error) else None)
    return tuple(widths)
