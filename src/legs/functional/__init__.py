"""The mathematics of geometric scattering: pure functions of tensors, one concept per file."""

from legs.functional.checks import check_batch, check_graph, check_undirected
from legs.functional.diffusion import (
    Walk,
    beyond_base,
    diffuse,
    diffusions,
    high_pass,
    lazy_mixture,
    masses,
    random_walk,
    walk_powers,
)
from legs.functional.frame import filter_responses, frame_bounds, invert_bank, paper_lower_bound
from legs.functional.infogain import infogain_scales
from legs.functional.moments import (
    graph_mean,
    graph_size,
    graph_sum,
    moments,
    signal_energy,
)
from legs.functional.nonlinearity import Nonlinearity, split_bands
from legs.functional.operators import (
    DiffusionOperator,
    check_operator,
    graph_operator,
    operator_spectrum,
)
from legs.functional.scales import (
    check_scales,
    cumulative_of_scales,
    default_scales,
    dyadic_scales,
    expected_scales,
    harden_scales,
    initial_logits,
    scale_weights,
    select_scales,
)
from legs.functional.scattering import scattering, scattering_paths
from legs.functional.wavelets import wavelet_transform, wavelet_weights

__all__ = [
    "DiffusionOperator",
    "Nonlinearity",
    "Walk",
    "beyond_base",
    "check_batch",
    "check_graph",
    "check_operator",
    "check_scales",
    "check_undirected",
    "cumulative_of_scales",
    "default_scales",
    "diffuse",
    "diffusions",
    "dyadic_scales",
    "expected_scales",
    "filter_responses",
    "frame_bounds",
    "graph_mean",
    "graph_operator",
    "graph_size",
    "graph_sum",
    "harden_scales",
    "high_pass",
    "infogain_scales",
    "initial_logits",
    "invert_bank",
    "lazy_mixture",
    "masses",
    "moments",
    "operator_spectrum",
    "paper_lower_bound",
    "random_walk",
    "scale_weights",
    "scattering",
    "scattering_paths",
    "select_scales",
    "signal_energy",
    "split_bands",
    "walk_powers",
    "wavelet_transform",
    "wavelet_weights",
]
