"""The methods, by the name a user types. A new one is a line below, and a test of its theorem."""

from microveil.core.errors import ParameterError, did_you_mean
from microveil.decompose import (
    Cholesky,
    FactorAnalysis,
    Factors,
    Identity,
    IndependentComponents,
    InvariantCoordinates,
    PrincipalComponents,
    RankTarget,
)
from microveil.methods.base import Kind, Method, Plan
from microveil.methods.by_utility import WhileUseful

ALL = {"components": "all", "sensitive": (), "sensitive_share": 0.8}
ALL_SWAPPED = {"perturb": "swap", **ALL}
ON_AVERAGE = {"exact": False, "root": "symmetric"}
EXACTLY = {"exact": True, "root": "symmetric"}

METHODS: dict[str, Method] = {
    method.id: method
    for method in [
        Method(
            id="veil",
            summary="Swap every independent component, give each column its smoothed distribution back, and arrange "
            "the values until correlations and rank correlations return.",
            reference="of this project; Hsu and Chen (2008) for the components, Muralidhar and Sarathy (2006) for the "
            "reverse mapping",
            decompose=IndependentComponents,
            minimum_columns=2,
            fixed={**ALL_SWAPPED, "sources": "all", "rest": "perturb", "root": "symmetric", "exchange": True},
            defaults={"exact": False, "marginals": "smoothed"},
        ),
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
            id="factor",
            summary="Perturb the factors that columns share and the rest that they do not, all or for some columns.",
            reference="Calviño, A., Aldeguer, P. and Domingo-Ferrer, J. (2017), Factor analysis for anonymization, "
            "eq. 2 and §IV",
            decompose=FactorAnalysis,
            select=Factors,
            # One column has nothing in common with others.
            minimum_columns=2,
        ),
        Method(
            id="component_removal",
            summary="Remove the largest principal components while the utility allows; it does not protect records.",
            reference="D'Acquisto, G. and Naldi, M., A conceptual framework for assessing anonymization-utility "
            "trade-offs based on principal component analysis, §III",
            decompose=PrincipalComponents,
            select=WhileUseful,
            minimum_columns=2,
            fixed={**ON_AVERAGE, "perturb": "remove"},
        ),
        Method(
            id="primp",
            summary="Swap every independent component; the means are kept exactly, the covariances on average.",
            reference="Hsu, C.-M. and Chen, M.-S. (2008), Simulation-based approaches for privacy preservation, "
            "Table 2",
            decompose=IndependentComponents,
            minimum_columns=2,
            fixed={**ALL_SWAPPED, **ON_AVERAGE},
        ),
        Method(
            id="primp_cholesky",
            summary="Swap every independent component, then restore the covariances exactly.",
            reference="Hsu, C.-M. and Chen, M.-S. (2008), Simulation-based approaches for privacy preservation, the "
            "hybrid of PRIMP and Cholesky",
            decompose=IndependentComponents,
            minimum_columns=2,
            fixed={**ALL_SWAPPED, **EXACTLY},
        ),
        Method(
            id="cholesky",
            summary="Replace the data by uniform draws, and give these exactly the same means and covariances.",
            reference="Hsu, C.-M. and Chen, M.-S. (2008), Simulation-based approaches for privacy preservation, "
            "Table 3 and §5; after Mateo-Sanz, Martínez-Ballesté and Domingo-Ferrer (2004)",
            decompose=Cholesky,
            fixed={**ALL, "perturb": "uniform", "exact": True, "root": "triangular"},
        ),
        Method(
            id="lhs",
            summary="Replace each column by a draw from each n-th of its distribution, in an order that gives the rank "
            "correlations back.",
            reference="Hsu, C.-M. and Chen, M.-S. (2008), Simulation-based approaches for privacy preservation, §5 "
            "(LHS), after Iman, R. L. and Conover, W. J. (1982)",
            decompose=RankTarget,
            fixed={
                **ALL,
                **ON_AVERAGE,
                "perturb": "van_der_waerden",
                "marginals": "stratified",
                "exchange": False,
                "tail_group": 5,
            },
        ),
        Method(
            id="normal",
            summary="Replace the data by draws from the normal distribution with their means and covariances.",
            reference="Hsu, C.-M. and Chen, M.-S. (2008), Simulation-based approaches for privacy preservation, §5 "
            "(MN)",
            decompose=PrincipalComponents,
            fixed={**ALL, **ON_AVERAGE, "perturb": "normal", "standardise": True},
        ),
        Method(
            id="ics",
            summary="Swap all invariant coordinates, which do not depend on the units or mixtures the columns come in.",
            reference="Tyler, D. E., Critchley, F., Dümbgen, L. and Oja, H. (2009), Invariant co-ordinate selection, "
            "Journal of the Royal Statistical Society B 71(3)",
            decompose=InvariantCoordinates,
            minimum_columns=2,
            fixed={**ALL_SWAPPED},
        ),
        Method(
            id="spectral_rotation",
            summary="Turn every principal component to a random direction among the records; no value comes back.",
            reference="Perkonoja, K. and Virta, J. (2024), Asymptotic utility of spectral anonymization, Privacy in "
            "Statistical Databases (O-variant); after Lasko, T. A. and Vinterbo, S. A. (2010), Spectral anonymization "
            "of data, IEEE Transactions on Knowledge and Data Engineering 22(3)",
            decompose=PrincipalComponents,
            minimum_columns=2,
            fixed={**ALL, "perturb": "rotate"},
            defaults={"exact": False},
        ),
        Method(
            id="spectral_bootstrap",
            summary="Draw the scores of every principal component anew, with replacement.",
            reference="after Lasko, T. A. and Vinterbo, S. A. (2010), Spectral anonymization of data, IEEE "
            "Transactions on Knowledge and Data Engineering 22(3)",
            decompose=PrincipalComponents,
            minimum_columns=2,
            fixed={**ALL, "perturb": "bootstrap"},
            defaults={"exact": False},
        ),
        Method(
            id="rank_swap",
            summary="Let the values of each column change places with others of nearly the same rank.",
            reference="Moore, R. A. (1996), Controlled data-swapping techniques for masking public use microdata sets, "
            "U.S. Bureau of the Census; as in Calviño (2017), §4.1",
            decompose=Identity,
            fixed={**ALL, "perturb": "rank_swap"},
            defaults={"exact": False},
        ),
        Method(
            id="microaggregate",
            summary="Replace each value by the mean of its neighbours in the sorted column, column by column.",
            reference="Defays, D. and Nanopoulos, P. (1993), Panels of enterprises and confidentiality: the small "
            "aggregates method, Statistics Canada (individual ranking)",
            decompose=Identity,
            fixed={**ALL, "perturb": "microaggregate"},
            defaults={"exact": False},
        ),
        Method(
            id="noise",
            summary="Add independent normal noise to each column, and bring it back to its variance.",
            reference="Brand, R. (2002), Microdata protection through noise addition, Inference Control in Statistical "
            "Databases",
            decompose=Identity,
            fixed={**ALL, "perturb": "noise"},
            defaults={"exact": False},
        ),
    ]
}

DEFAULT_METHOD = "veil"


def method_named(name: str) -> Method:
    """The method, or an error that names the nearest."""
    if not isinstance(name, str):
        raise ParameterError(f"method: takes a name, not {type(name).__name__}", did_you_mean("", METHODS))
    if name not in METHODS:
        raise ParameterError(f"there is no method '{name}'", did_you_mean(name, METHODS))
    return METHODS[name]


__all__ = ["DEFAULT_METHOD", "METHODS", "Kind", "Method", "Plan", "method_named"]
