"""Risk: what an intruder could do with a release, each told as an attacker's story."""

from microveil.measures.base import registry
from microveil.measures.risk.anonymity import k_anonymity, l_diversity, sample_uniques, t_closeness
from microveil.measures.risk.attribute_inference import attribute_inference, inference
from microveil.measures.risk.closest import dcr_ratio, exact_matches, near_leakage
from microveil.measures.risk.extremes import extreme_disclosure, outlier_risk
from microveil.measures.risk.interval import interval_disclosure, interval_disclosure_own, interval_disclosure_sd
from microveil.measures.risk.linkability import linkability
from microveil.measures.risk.linkage import (
    dbrl,
    known_columns_linkage,
    mahalanobis_linkage,
    optimal_linkage,
    rank_linkage,
    subspace_linkage,
)
from microveil.measures.risk.matches import max_record_risk, near_matches
from microveil.measures.risk.membership import membership
from microveil.measures.risk.mixed_linkage import clear_uniques, mixed_linkage
from microveil.measures.risk.population import global_risk, individual_risk
from microveil.measures.risk.reconstruction import reconstruction, spectral_filtering
from microveil.measures.risk.singling_out import singling_out
from microveil.measures.risk.special_uniques import suda

# A new attack is a function with its story, and a line here.
MEASURES = registry(
    "risk",
    clear_uniques,
    mixed_linkage,
    dbrl,
    mahalanobis_linkage,
    rank_linkage,
    optimal_linkage,
    subspace_linkage,
    known_columns_linkage,
    interval_disclosure,
    interval_disclosure_own,
    interval_disclosure_sd,
    extreme_disclosure,
    outlier_risk,
    singling_out,
    linkability,
    inference,
    attribute_inference,
    reconstruction,
    spectral_filtering,
    dcr_ratio,
    exact_matches,
    near_matches,
    membership,
    max_record_risk,
    near_leakage,
    k_anonymity,
    sample_uniques,
    l_diversity,
    t_closeness,
    individual_risk,
    global_risk,
    suda,
)
