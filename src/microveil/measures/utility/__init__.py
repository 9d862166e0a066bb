"""Utility: what a release is still good for, as pure functions of the original and the released table."""

from microveil.measures.base import registry
from microveil.measures.utility import (
    dependence,
    distances,
    image,
    information_loss,
    label_tables,
    moments,
    propensity,
    regression,
    score,
    spectrum,
    trained,
)

# A new measure is a function with its declaration in one of these files; a new file is a name here.
MEASURES = {
    **registry("utility", information_loss, propensity, moments, dependence, regression, label_tables, trained),
    **registry("utility", distances, image, spectrum),
}

# Figures made of other figures, of both rooms; a new one is a line in score.py and one here.
SCORES = {one.id: one for one in (score.score_2, score.score_3, score.summary, score.overall, score.overall_sensitive)}
