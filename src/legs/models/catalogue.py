"""Networks by the names the paper gives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Literal

from legs.models.deep import DeepLEGS
from legs.models.deep_gnn import DeepGNN
from legs.models.gnn import GNN, Baseline, Snowball
from legs.models.legs_net import MPLEGS, LEGSNet
from legs.models.network import Network
from legs.nn import FCN, RBF, Attention, Scattering, WaveletConv


def legs_net(
    in_channels: int,
    out_channels: int,
    *,
    head: Literal["fcn", "rbf", "attention"] = "fcn",
    level: Literal["graph", "node"] = "graph",
    hidden_channels: int = 128,
    dropout: float = 0.0,
    num_anchors: int = 128,
    gamma: float | Sequence[float] | None = None,
    learn_gamma: bool = True,
    token_channels: int = 64,
    heads: int = 4,
    **scattering: Any,
) -> LEGSNet:
    """A LEGS network; ``level="node"`` predicts for nodes. ``scattering``: see ``Scattering``."""
    if level == "node":
        scattering["aggr"] = None
    module = Scattering(in_channels, **scattering)
    widths = (module.out_channels, out_channels)
    if head == "rbf":
        return LEGSNet(module, RBF(*widths, num_anchors, gamma, learn_gamma))
    if head != "attention":
        return LEGSNet(module, FCN(*widths, hidden_channels, dropout))
    if module.append_graph_size:
        raise ValueError(
            "the attention head reads scattering paths alone: no append_graph_size=True there"
        )
    tokens = (module.num_paths, token_channels, heads)
    return LEGSNet(module, Attention(*widths, *tokens, hidden_channels, dropout))


# Each name: how to build it, and what the name fixes.
_BUILDERS: dict[str, tuple[Callable[..., Network], dict[str, Any]]] = {
    "legs-fixed": (legs_net, {"scales": "dyadic"}),
    "legs-fcn": (legs_net, {}),
    "legs-rbf": (legs_net, {"head": "rbf"}),
    "legs-attn-fcn": (legs_net, {"head": "attention"}),
    "mp-legs-fcn": (MPLEGS, {}),
    "legs-deep": (DeepLEGS, {}),
    "gcn": (GNN, {"layer": "gcn"}),
    "graphsage": (GNN, {"layer": "graphsage"}),
    "gat": (GNN, {"layer": "gat"}),
    "gin": (GNN, {"layer": "gin"}),
    "snowball": (Snowball, {}),
    "gcn-deep": (DeepGNN, {"layer": "gcn"}),
    "sage-deep": (DeepGNN, {"layer": "sage"}),
    "gat-deep": (DeepGNN, {"layer": "gat"}),
    "gin-deep": (DeepGNN, {"layer": "gin"}),
    "baseline": (Baseline, {}),
}


def available() -> list[str]:
    """Names that :func:`create` takes.

    >>> available()[:3]
    ['legs-fixed', 'legs-fcn', 'legs-rbf']
    """
    return list(_BUILDERS)


def create(name: str, in_channels: int, out_channels: int, **options: Any) -> Network:
    """A fresh network by name.

    Args:
        name: one of :func:`available`.
        in_channels: number of node features.
        out_channels: number of classes or targets.
        options: those of the network, such as ``hidden_channels`` and ``dropout``; for LEGS also
            those of :class:`~legs.nn.Scattering`.

    >>> create("legs-fcn", 2, 3, num_scales=4).num_parameters()
    12019
    """
    if name not in _BUILDERS:
        raise ValueError(f"no network is called {name!r}{nearest(name, available())}")
    build, fixed = _BUILDERS[name]
    accepted = options_of(name)
    for option in options:
        if option not in accepted:
            raise ValueError(f"{name} has no option {option!r}{nearest(option, accepted)}")
    try:
        return build(in_channels=in_channels, out_channels=out_channels, **fixed, **options)
    except (TypeError, RuntimeError, AttributeError, AssertionError, IndexError) as error:
        raise ValueError(cannot_build(name, options, error)) from error


def options_of(name: str) -> list[str]:
    """Options that :func:`create` takes for a network.

    >>> options_of("gcn")
    ['dropout', 'hidden_channels', 'num_layers']
    """
    build, fixed = _BUILDERS[name]
    names = set(inspect.signature(build).parameters)
    for module, keyword in ((Scattering, "scattering"), (WaveletConv, "conv")):
        if keyword in names:
            names |= set(inspect.signature(module).parameters)
    return sorted(names - {"in_channels", "out_channels", "scattering", "conv", *fixed})


def cannot_build(name: str, options: dict[str, Any], error: Exception) -> str:
    """The message for options of which a layer says ``error``."""
    values = ", ".join(f"{option}={value!r}" for option, value in options.items())
    return f"{name} cannot be built with {values or 'these channels'}: {error}"


def nearest(name: str, names: list[str]) -> str:
    """The end of an error message: the nearest name, or all of them."""
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; choose from {', '.join(names)}"
