"""The methods, by the name a user types. A new one is a line below, and a test of its theorem."""

from microveil.core.errors import ParameterError, did_you_mean
from microveil.decompose import IndependentComponents, PrincipalComponents
from microveil.methods.base import Kind, Method, Plan

ALL_SWAPPED = {"perturb": "swap", "components": "all", "sensitive": (), "sensitive_share": 0.8}

METHODS: dict[str, Method] = {
    method.id: method
    for method in [
        Method(
            id="pca",
            summary="Perturb principal components: swap, redraw or blur all or some of them, and undo the rotation.",
            reference="Calviño, A. (2017), A simple method for limiting disclosure in continuous microdata based on "
            "principal component analysis, Journal of Official Statistics 33(1), eq. 5-8",
            decompose=PrincipalComponents,
            # One column has no components: the release would be its own values in another order.
            minimum_columns=2,
        ),
        Method(
            id="primp",
            summary="Swap every independent component; the means are kept exactly, the covariances on average.",
            reference="Hsu, C.-M. and Chen, M.-S. (2008), Simulation-based approaches for privacy preservation, "
            "Table 2",
            decompose=IndependentComponents,
            minimum_columns=2,
            fixed={**ALL_SWAPPED, "exact": False},
        ),
        Method(
            id="primp_cholesky",
            summary="Swap every independent component, then restore the covariances exactly.",
            reference="Hsu, C.-M. and Chen, M.-S. (2008), Simulation-based approaches for privacy preservation, the "
            "hybrid of PRIMP and Cholesky",
            decompose=IndependentComponents,
            minimum_columns=2,
            fixed={**ALL_SWAPPED, "exact": True},
        ),
    ]
}

DEFAULT_METHOD = "pca"


def method_named(name: str) -> Method:
    """The method, or an error that names the nearest."""
    if not isinstance(name, str):
        raise ParameterError(f"method: takes a name, not {type(name).__name__}", did_you_mean("", METHODS))
    if name not in METHODS:
        raise ParameterError(f"there is no method '{name}'", did_you_mean(name, METHODS))
    return METHODS[name]


__all__ = ["DEFAULT_METHOD", "METHODS", "Kind", "Method", "Plan", "method_named"]
