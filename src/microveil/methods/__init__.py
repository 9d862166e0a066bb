"""The methods, by the name a user types. A new one is a line below, and a test of its theorem."""

from microveil import decompose
from microveil.core.errors import ParameterError, did_you_mean
from microveil.methods.base import Kind, Method, Plan
from microveil.methods.by_utility import WhileUseful

ALL = {"components": "all", "sensitive": (), "sensitive_share": 0.8, "sensitive_loading": None}
ALL_SWAPPED = {"perturb": "swap", **ALL}
ON_AVERAGE = {"exact": False, "root": "symmetric"}
SHAPES = {"tail_group": 5, "window": 20}
STRATIFIED = {"perturb": "van_der_waerden", "marginals": "stratified", "exchange": False}
DRAWN_SOURCES = ("swap", "bootstrap", "stratified")
"""What Hsu and Chen (2008), §1 and §3.3, do with independent sources: shuffle them, resample them, or draw strata."""

ORTHOGONALISED = {**ALL, "exact": True, "root": "triangular"}
LANGSRUD = (
    "Langsrud, Ø. (2019), Information preserving regression-based tools for statistical disclosure control, Statistics "
    "and Computing 29"
)

HSU_AND_CHEN = "Hsu, C.-M. and Chen, M.-S. (2008), Simulation-based approaches for privacy preservation"


def without_decomposition(id: str, summary: str, reference: str, **defaults: str) -> Method:  # noqa: A002 - as in Method
    """A method that perturbs the columns as they are, by the perturbation of its own name."""
    fixed = {**ALL, "perturb": id}
    return Method(id, summary, reference, decompose.Identity, fixed=fixed, defaults={"exact": False, **defaults})


def of_labels(id: str, summary: str, reference: str) -> Method:  # noqa: A002 - as in Method
    """A method that treats labels and no numbers, by the perturbation of its own name."""
    nothing_else = {**ALL, **ON_AVERAGE, **SHAPES, "marginals": "free", "exchange": True}
    return Method(id, summary, reference, decompose.Identity, fixed={**nothing_else, "perturb": id})


METHODS: dict[str, Method] = {
    method.id: method
    for method in [
        Method(
            id="veil",
            summary="Swap every independent component, give each column its smoothed distribution back, and arrange "
            "the values until correlations and rank correlations return.",
            reference="of this project; Hsu and Chen (2008) for the components, Muralidhar and Sarathy (2006) for the "
            "reverse mapping",
            decompose=decompose.IndependentComponents,
            minimum_columns=2,
            fixed={**ALL_SWAPPED, "sources": "all", "rest": "perturb", "root": "symmetric", "exchange": True},
            defaults={"exact": False, "marginals": "smoothed"},
        ),
        Method(
            id="pca",
            summary="Perturb principal components: swap, redraw or blur all or some of them, and undo the rotation.",
            reference="Calviño, A. (2017), A simple method for limiting disclosure in continuous microdata based on "
            "principal component analysis, Journal of Official Statistics 33(1), eq. 5-8",
            decompose=decompose.PrincipalComponents,
            # One column has no components: the release would be its own values in another order.
            minimum_columns=2,
        ),
        Method(
            id="factor",
            summary="Perturb the factors that columns share and the rest that they do not, all or for some columns.",
            reference="Calviño, A., Aldeguer, P. and Domingo-Ferrer, J. (2017), Factor analysis for anonymization, "
            "eq. 2 and §IV",
            decompose=decompose.FactorAnalysis,
            select=decompose.FactorSelection,
            # One column has nothing in common with others.
            minimum_columns=2,
        ),
        Method(
            id="component_removal",
            summary="Remove the largest principal components while the utility allows; it does not protect records.",
            reference="D'Acquisto, G. and Naldi, M., A conceptual framework for assessing anonymization-utility "
            "trade-offs based on principal component analysis, §III",
            decompose=decompose.PrincipalComponents,
            select=WhileUseful,
            minimum_columns=2,
            fixed={**ON_AVERAGE, "perturb": "remove"},
        ),
        Method(
            id="primp",
            summary="Swap every independent component, or draw it anew; covariances are kept on average, and means, "
            "where they are swapped, exactly.",
            reference=f"{HSU_AND_CHEN}, Table 2",
            decompose=decompose.IndependentComponents,
            minimum_columns=2,
            fixed={**ALL, **ON_AVERAGE},
            perturb_by=DRAWN_SOURCES,
        ),
        Method(
            id="primp_cholesky",
            summary="Swap every independent component, or draw it anew, then restore the covariances exactly.",
            reference=f"{HSU_AND_CHEN}, the hybrid of PRIMP and Cholesky; Table 4 to the letter with root='triangular'",
            decompose=decompose.IndependentComponents,
            minimum_columns=2,
            fixed={**ALL, "exact": True},
            perturb_by=DRAWN_SOURCES,
        ),
        Method(
            id="cholesky",
            summary="Replace the data by uniform draws, and give these exactly the same means and covariances.",
            reference=f"{HSU_AND_CHEN}, Table 3 and §5; after Mateo-Sanz, Martínez-Ballesté and Domingo-Ferrer (2004)",
            decompose=decompose.Cholesky,
            fixed={**ALL, "perturb": "uniform", "exact": True, "root": "triangular"},
        ),
        Method(
            id="lhs",
            summary="Replace each column by a draw from each n-th of its distribution, in an order that gives the rank "
            "correlations back.",
            reference=f"{HSU_AND_CHEN}, §5 (LHS), after Iman, R. L. and Conover, W. J. (1982)",
            decompose=decompose.RankTarget,
            fixed={**ALL, **ON_AVERAGE, **SHAPES, **STRATIFIED},
        ),
        Method(
            id="normal",
            summary="Replace the data by draws from the normal distribution with their means and covariances.",
            reference=f"{HSU_AND_CHEN}, §5 (MN)",
            decompose=decompose.PrincipalComponents,
            fixed={**ALL, **ON_AVERAGE, "perturb": "normal", "standardise": True},
        ),
        Method(
            id="ics",
            summary="Swap all invariant coordinates, which do not depend on the units or mixtures the columns come in.",
            reference="Tyler, D. E., Critchley, F., Dümbgen, L. and Oja, H. (2009), Invariant co-ordinate selection, "
            "Journal of the Royal Statistical Society B 71(3)",
            decompose=decompose.InvariantCoordinates,
            minimum_columns=2,
            fixed={**ALL_SWAPPED},
        ),
        Method(
            id="spectral_rotation",
            summary="Turn every principal component to a random direction among the records; no value comes back.",
            reference="Perkonoja, K. and Virta, J. (2024), Asymptotic utility of spectral anonymization, Privacy in "
            "Statistical Databases (O-variant); after Lasko, T. A. and Vinterbo, S. A. (2010), Spectral anonymization "
            "of data, IEEE Transactions on Knowledge and Data Engineering 22(3)",
            decompose=decompose.PrincipalComponents,
            minimum_columns=2,
            fixed={**ALL, "perturb": "rotate"},
            defaults={"exact": False},
        ),
        Method(
            id="spectral_bootstrap",
            summary="Draw the scores of every principal component anew, with replacement.",
            reference="after Lasko, T. A. and Vinterbo, S. A. (2010), Spectral anonymization of data, IEEE "
            "Transactions on Knowledge and Data Engineering 22(3)",
            decompose=decompose.PrincipalComponents,
            minimum_columns=2,
            fixed={**ALL, "perturb": "bootstrap"},
            defaults={"exact": False},
        ),
        Method(
            id="ipso",
            summary="Replace what the public columns leave of each record by normal draws with exactly the same "
            "covariances.",
            reference=f"{LANGSRUD}, eq. 2-4; after Burridge, J. (2003), Information preserving statistical obfuscation",
            decompose=decompose.Residuals,
            fixed={**ORTHOGONALISED, "perturb": "normal"},
        ),
        Method(
            id="score_mix",
            summary="Mix the scores of the residuals with drawn ones, at an exact correlation for each score.",
            reference=f"{LANGSRUD}, eq. 8",
            decompose=decompose.Residuals,
            fixed={**ORTHOGONALISED, "perturb": "score_mix"},
        ),
        Method(
            id="residual_mix",
            summary="Mix the residuals of each column with drawn ones, at an exact correlation for each column.",
            reference=f"{LANGSRUD}, eq. 7, 9 and 10; after Muralidhar, K. and Sarathy, R. (2008), Generating "
            "sufficiency-based non-synthetic perturbed data, Transactions on Data Privacy 1(1)",
            decompose=decompose.Residuals,
            fixed={**ORTHOGONALISED, "perturb": "residual_mix", "decomposition": "qr"},
        ),
        Method(
            id="synthetic_addition",
            summary="Add to another masker's output what makes its means, covariances and fits exact.",
            reference=f"{LANGSRUD}, eq. 5-6, 9 and 10",
            decompose=decompose.Residuals,
            fixed={**ORTHOGONALISED, "perturb": "synthetic_addition", "decomposition": "qr"},
        ),
        Method(
            id="correct",
            summary="Turn another masker's output into one with exactly the means, covariances and fits of the data.",
            reference=f"{LANGSRUD}, eq. 11-12",
            decompose=decompose.Residuals,
            fixed={**ORTHOGONALISED, "perturb": "other"},
        ),
        Method(
            id="romm",
            summary="Turn the scores of the residuals a little way at random, all of them together.",
            reference=f"{LANGSRUD}, eq. 17; after Ting, D., Fienberg, S. E. and Trottini, M. (2008), Random orthogonal "
            "matrix masking methodology for microdata release",
            decompose=decompose.Residuals,
            fixed={**ORTHOGONALISED, "perturb": "turn"},
        ),
        Method(
            id="microhybrid",
            summary="Draw new residuals inside clusters of similar records, with the means and covariances of each.",
            reference=f"{LANGSRUD}, §6 (MHa and MHb); after Domingo-Ferrer, J. and González-Nicolás, Ú. (2010), Hybrid "
            "microdata using microaggregation, Information Sciences 180(15)",
            decompose=decompose.Microclusters,
            fixed={**ORTHOGONALISED, "perturb": "normal"},
        ),
        Method(
            id="cluster_hybrid",
            summary="Keep regressions inside clusters and across them, and draw what they leave anew in each cluster.",
            reference=f"{LANGSRUD}, §6, steps 1-10 and modifications a-e",
            decompose=decompose.Clusters,
            fixed={**ORTHOGONALISED, "perturb": "normal"},
        ),
        Method(
            id="generalised_microaggregation",
            summary="Replace each record by what regressions inside its cluster and across clusters say of it.",
            reference=f"{LANGSRUD}, §6 (residuals set to zero)",
            decompose=decompose.Aggregates,
            fixed={**ALL, **ON_AVERAGE, "perturb": "remove"},
        ),
        Method(
            id="outlier_split",
            summary="Draw new residuals among ordinary and among outlying records apart, each with their covariances.",
            reference=f"{LANGSRUD}, §8; after Templ, M. and Meindl, B. (2008), Robustification of microdata masking "
            "methods and the comparison with existing methods",
            decompose=decompose.OutlyingRecords,
            fixed={**ORTHOGONALISED, "perturb": "normal"},
        ),
        without_decomposition(
            id="swap",
            summary="Put the values of each column, and its labels, in a random order of its own.",
            reference="Dalenius, T. and Reiss, S. P. (1982), Data-swapping: a technique for disclosure control, "
            "Journal of Statistical Planning and Inference 6(1), in its plainest form",
        ),
        without_decomposition(
            id="rank_swap",
            summary="Let the values of each column change places with others of nearly the same rank.",
            reference="Moore, R. A. (1996), Controlled data-swapping techniques for masking public use microdata sets, "
            "U.S. Bureau of the Census; as in Calviño (2017), §4.1",
        ),
        without_decomposition(
            id="microaggregate",
            summary="Replace the values of each record by the means of its group of similar records.",
            reference="Domingo-Ferrer, J. and Torra, V. (2005), Ordinal, continuous and heterogeneous k-anonymity "
            "through microaggregation, Data Mining and Knowledge Discovery 11(2) (MDAV); Domingo-Ferrer, J. and "
            "Mateo-Sanz, J. M. (2002), Practical data-oriented microaggregation for statistical disclosure control, "
            "IEEE Transactions on Knowledge and Data Engineering 14(1); Hansen, S. L. and Mukherjee, S. (2003), A "
            "polynomial algorithm for optimal univariate microaggregation, IEEE Transactions on Knowledge and Data "
            "Engineering 15(4)",
            grouping="mdav",
        ),
        without_decomposition(
            id="microaggregate_noise",
            summary="Replace records by the means of groups of similar ones, and add noise of the covariance that this "
            "takes.",
            reference="Oganian, A. and Karr, A. F. (2006), Combinations of SDC methods for microdata protection, "
            "Privacy in Statistical Databases; as in Calviño (2017), §4.1",
        ),
        without_decomposition(
            id="noise",
            summary="Add independent normal noise to each column, and bring it back to its variance.",
            reference="Brand, R. (2002), Microdata protection through noise addition, Inference Control in Statistical "
            "Databases",
        ),
        without_decomposition(
            id="correlated_noise",
            summary="Shrink the columns towards their means and add normal noise with the covariance that this takes.",
            reference="Kim, J. J. (1986), A method for limiting disclosure in microdata based on random noise and "
            "transformation, Proceedings of the Section on Survey Research Methods, American Statistical Association; "
            "Tendick, P. and Matloff, N. (1994), A modified random perturbation method for database security, ACM "
            "Transactions on Database Systems 19(1)",
        ),
        without_decomposition(
            id="multiplicative_noise",
            summary="Multiply each value, or each record, by a random factor with mean 1.",
            reference="Kim, J. J. and Winkler, W. E. (2003), Multiplicative noise for masking continuous data, U.S. "
            "Bureau of the Census; Nayak, T. K., Sinha, B. and Zayatz, L. (2011), Statistical properties of "
            "multiplicative noise masking for confidentiality protection, Journal of Official Statistics 27(3)",
        ),
        without_decomposition(
            id="shuffle",
            summary="Put the values of each column in an order drawn from a model of the ranks, given public columns.",
            reference="Muralidhar, K. and Sarathy, R. (2006), Data shuffling: a new masking approach for numerical "
            "data, Management Science 52(5)",
        ),
        without_decomposition(
            id="smoothed_bootstrap",
            summary="Draw whole records anew, with replacement, and blur them.",
            reference="Silverman, B. W. (1986), Density estimation for statistics and data analysis, Chapman and Hall, "
            "§6.4.1; Silverman, B. W. and Young, G. A. (1987), The bootstrap: to smooth or not to smooth?, Biometrika "
            "74(3)",
        ),
        of_labels(
            id="pram",
            summary="Let each label stay or become another one with known probabilities, and keep their frequencies on "
            "average.",
            reference="Kooiman, P., Willenborg, L. and Gouweleeuw, J. (1997), PRAM: a method for disclosure "
            "limitation of microdata, Statistics Netherlands; Gouweleeuw, J. M., Kooiman, P., Willenborg, L. C. R. J. "
            "and de Wolf, P.-P. (1998), Post randomisation for statistical disclosure control: theory and "
            "implementation, Journal of Official Statistics 14(4)",
        ),
        of_labels(
            id="recode",
            summary="Make columns coarser: cap amounts, put numbers into bands and labels into groups.",
            reference="Willenborg, L. and de Waal, T. (2001), Elements of statistical disclosure control, Springer, §5",
        ),
        of_labels(
            id="suppress_cells",
            summary="Leave out the fewest labels, so that every record shares its labels with at least k - 1 others.",
            reference="Samarati, P. and Sweeney, L. (1998), Protecting privacy when disclosing information: "
            "k-anonymity and its enforcement through generalization and suppression, SRI International; Templ, M., "
            "Kowarik, A. and Meindl, B. (2015), Statistical disclosure control for micro-data using the R package "
            "sdcMicro, Journal of "
            "Statistical Software 67(4)",
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
