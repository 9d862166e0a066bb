"""What every method refuses: parameters that are unknown, misspelt, of another step or out of their range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_samples import OPEN, every_pair, release_of, table

import microveil as mv
from microveil.core.errors import ParameterError
from microveil.perturb import PERTURBATIONS


@every_pair
def test_unknown_parameter_is_refused_by_name(method: str, perturb: str) -> None:
    with pytest.raises(ParameterError, match="'bogus'"):
        release_of(table(), method, perturb, bogus=1)


@every_pair
def test_misspelt_parameter_gets_a_hint(method: str, perturb: str) -> None:
    with pytest.raises(ParameterError, match="did you mean 'components'"):
        release_of(table(), method, perturb, componets=1)


@every_pair
def test_parameter_of_another_perturbation_is_refused_by_name(method: str, perturb: str) -> None:
    own = PERTURBATIONS[perturb].model_fields
    for other in PERTURBATIONS.values():
        for name in other.model_fields:
            if name not in own:
                with pytest.raises(ParameterError, match=f"^{name}: "):
                    release_of(table(), method, perturb, **{name: 1})


BAD = [
    ("components", 0),
    ("components", 5),
    ("components", 1.5),
    ("components", -1),
    ("components", True),
    ("components", []),
    ("components", [0, 0]),
    ("components", [0, 4]),
    ("components", [-1]),
    ("components", [True]),
    ("components", "al"),
    ("components", None),
    ("exact", 2),
    ("exact", "perhaps"),
    ("exact", None),
    ("root", "square"),
    ("root", None),
    ("standardise", "perhaps"),
    ("sensitive", ["nobody"]),
    ("sensitive", [0]),
    ("sensitive_share", 0.5),
]


@every_pair
@pytest.mark.parametrize(("name", "value"), BAD, ids=[f"{name}={value}" for name, value in BAD])
def test_bad_shared_parameter_is_refused_by_name(method: str, perturb: str, name: str, value: Any) -> None:
    # The last two do not go with components="all": an option is never accepted and ignored.
    with pytest.raises(ParameterError, match=f"^{name}: "):
        release_of(table(), method, perturb, seed=1, **{name: value})


@pytest.mark.parametrize("value", [0, -0.1, 1.1, float("nan"), "much", None, True])
def test_bad_sensitive_share_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^sensitive_share: "):
        release_of(table(), components="sensitive", sensitive=[0], sensitive_share=value)


BAD_OWN = [
    ("swap", "permutations", np.zeros((120, 4), dtype=int)),
    ("swap", "permutations", np.tile(np.arange(1, 121)[:, None], 4)),
    ("swap", "permutations", np.tile(np.arange(120)[:, None], 3)),
    ("swap", "permutations", np.tile(np.arange(120.0)[:, None], 4)),
    ("swap", "permutations", "random"),
    ("swap", "dominated", "drop"),
    ("redraw", "dominated", "drop"),
    ("bootstrap", "dominated", True),
    ("stratified", "dominated", True),
    ("redraw", "bandwidth_ratio", -1),
    ("redraw", "bandwidth_ratio", 11),
    ("redraw", "bandwidth_ratio", float("nan")),
    ("redraw", "bandwidth_ratio", True),
    ("redraw", "draws", np.zeros((120, 3))),
    ("redraw", "draws", np.full((120, 4), np.nan)),
    ("normal", "draws", np.zeros((119, 4))),
    ("normal", "draws", np.full((120, 4), np.inf)),
    ("normal", "draws", np.zeros((120, 4), dtype=complex)),
    ("parametric", "families", []),
    ("parametric", "families", ["gaussian"]),
    ("parametric", "families", 3),
    ("noise", "noise_sd_ratio", 0),
    ("noise", "noise_sd_ratio", 10.5),
    ("noise", "noise_sd_ratio", float("nan")),
    ("noise", "noise_sd_ratio", "little"),
    ("noise", "noise_sd_ratio", True),
    ("noise", "draws", np.full((120, 4), np.nan)),
    ("correlated_noise", "noise_variance_share", 0),
    ("correlated_noise", "noise_variance_share", 1),
    ("correlated_noise", "noise_variance_share", 20),
    ("correlated_noise", "noise_variance_share", float("nan")),
    ("correlated_noise", "noise_variance_share", True),
    ("correlated_noise", "noise_covariance", "full"),
    ("correlated_noise", "draws", np.zeros((120, 3))),
    ("shuffle", "draws", np.zeros((119, 4))),
    ("shuffle", "draws", np.full((120, 4), np.nan)),
    ("smoothed_bootstrap", "bandwidth_ratio", 0),
    ("smoothed_bootstrap", "bandwidth_ratio", 11),
    ("smoothed_bootstrap", "bandwidth_ratio", float("nan")),
    ("smoothed_bootstrap", "bandwidth_ratio", True),
    ("smoothed_bootstrap", "draws", np.zeros((120, 5))),
    ("rank_swap", "rank_window", 10),
    ("rank_swap", "rank_window", 0),
    ("rank_swap", "rank_window", 0.008),
    ("rank_swap", "rank_window", 1.0001),
    ("rank_swap", "rank_window", float("nan")),
    ("rank_swap", "rank_window", True),
    ("microaggregate", "group_size", 1),
    ("microaggregate", "group_size", 121),
    ("microaggregate", "group_size", 2.5),
    ("microaggregate", "group_size", True),
    ("microaggregate", "grouping", "nearest"),
    ("microaggregate", "grouping", None),
    ("microaggregate", "sizes", "maximum"),
    ("microaggregate", "sizes", 3),
    ("microaggregate_noise", "group_size", 1),
    ("microaggregate_noise", "group_size", 121),
    ("microaggregate_noise", "draws", np.zeros((120, 3))),
    ("microaggregate_noise", "draws", np.full((120, 4), np.nan)),
    ("rotate", "draws", np.zeros((120, 3))),
    ("rotate", "draws", np.full((120, 4), np.nan)),
]


@pytest.mark.parametrize("method", OPEN)
@pytest.mark.parametrize(
    ("perturb", "name", "value"), BAD_OWN, ids=[f"{name}-{i}" for i, (_, name, _) in enumerate(BAD_OWN)]
)
def test_bad_parameter_of_a_perturbation_is_refused_by_name(method: str, perturb: str, name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"^{name}: "):
        mv.protect(table(), method, perturb=perturb, seed=1, **{name: value})


def test_every_perturbation_with_parameters_has_a_bad_one_tested() -> None:
    declared = {(perturb, name) for perturb, step in PERTURBATIONS.items() for name in step.model_fields}
    assert declared == {(perturb, name) for perturb, name, _ in BAD_OWN}


@pytest.mark.parametrize("value", ["swp", "", 3, None, ["swap"]])
def test_unknown_perturbation_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^perturb: "):
        mv.protect(table(), "pca", perturb=value)


@pytest.mark.parametrize("value", [-1, 1.0, "1", True, np.float64(2)])
def test_bad_seed_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^seed: "):
        mv.protect(table(), seed=value)


def test_unknown_method_and_engine_are_refused_by_name() -> None:
    with pytest.raises(ParameterError, match=r"'pcaa'.*did you mean 'pca'"):
        mv.protect(table(), "pcaa")
    with pytest.raises(ParameterError, match=r"^engine: 'gpu'"):
        mv.protect(table(), engine="gpu")
