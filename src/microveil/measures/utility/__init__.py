"""Utility: what a release is still good for, as pure functions of the original and the released table."""

from microveil.measures.base import registry
from microveil.measures.utility.dependence import (
    between_correlation,
    correlation_bias,
    correlation_difference,
    kendall_bias,
    rank_correlation_bias,
    rank_correlation_difference,
    within_correlation,
)
from microveil.measures.utility.distances import (
    kl_gaussian,
    kl_ridge,
    norm_frobenius,
    norm_max_row,
    norm_sum,
    selectivity,
    sensitive_correlation,
    vector_correlation,
    wasserstein_gaussian,
)
from microveil.measures.utility.image import psnr, ssim
from microveil.measures.utility.information_loss import pil, pil7
from microveil.measures.utility.label_tables import cramers_v_change, group_means, label_regressions, two_way_tables
from microveil.measures.utility.moments import (
    il1s,
    ks,
    kurtosis_bias,
    marginal_distance,
    mean_bias,
    skewness_bias,
    variance_bias,
)
from microveil.measures.utility.propensity import classifier_auc, propensity_2, propensity_3
from microveil.measures.utility.regression import ci_overlap, regression_fit
from microveil.measures.utility.score import Score, overall, overall_sensitive, score_2, score_3, summary
from microveil.measures.utility.spectrum import eigen_decay
from microveil.measures.utility.trained import train_on_release

# A new measure is a function, and a line here.
MEASURES = registry(
    "utility",
    pil,
    pil7,
    propensity_2,
    propensity_3,
    classifier_auc,
    mean_bias,
    variance_bias,
    skewness_bias,
    kurtosis_bias,
    ks,
    marginal_distance,
    il1s,
    correlation_bias,
    rank_correlation_bias,
    kendall_bias,
    correlation_difference,
    rank_correlation_difference,
    ci_overlap,
    regression_fit,
    two_way_tables,
    cramers_v_change,
    group_means,
    label_regressions,
    train_on_release,
    norm_sum,
    norm_max_row,
    norm_frobenius,
    vector_correlation,
    kl_gaussian,
    kl_ridge,
    wasserstein_gaussian,
    psnr,
    ssim,
    eigen_decay,
    between_correlation,
    within_correlation,
    selectivity,
    sensitive_correlation,
)

# Figures made of other figures, of both rooms; a new one is a line in score.py and one here.
SCORES: dict[str, Score] = {score.id: score for score in (score_2, score_3, summary, overall, overall_sensitive)}
