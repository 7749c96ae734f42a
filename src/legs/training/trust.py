"""What was found once for a data set, networks need not look for in every batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from legs.models import GNN, Network, Snowball
from legs.nn import Scattering

if TYPE_CHECKING:
    from legs.training.inputs import Inputs


@contextmanager
def unchecked(network: Network) -> Iterator[None]:
    """Graphs of a data set were checked once; inside, layers do not look at every batch again."""
    layers = [m for m in network.modules() if isinstance(m, Scattering) and m.validate]
    for layer in layers:
        layer.validate = False
    try:
        yield
    finally:
        for layer in layers:
            layer.validate = True


def trust_graphs(network: Network, inputs: Inputs) -> None:
    """Tells the message-passing layers of a network whether they can take the faster way.

    They cannot see for themselves at every batch what was found once for a data set.
    """
    for module in _message_passing(network):
        module.regular_graphs = inputs.fits(module)


@contextmanager
def trusted(network: Network, inputs: Inputs) -> Iterator[None]:
    """As :func:`trust_graphs`, for a while: later the network may see graphs of any kind."""
    before = [(module, module.regular_graphs) for module in _message_passing(network)]
    trust_graphs(network, inputs)
    try:
        yield
    finally:
        for module, regular in before:
            module.regular_graphs = regular


def _message_passing(network: Network) -> list[GNN | Snowball]:
    return [module for module in network.modules() if isinstance(module, GNN | Snowball)]
