"""Restorations: what a release gets back after the perturbation."""

from microveil.restore.arrange import Arranged, Settled, arrange
from microveil.restore.calibrate import Correction, ExactMoments, Root, calibrate, correction
from microveil.restore.grid import on_grid
from microveil.restore.levels import NewResiduals, new_residuals
from microveil.restore.limits import Arrangement, Limits, within_limits
from microveil.restore.marginals import Marginal, Marginals, mapped
from microveil.restore.missing import Sums, completed, outnumbered, recalibrated, with_means
from microveil.restore.rules import Enforcement, cost_of, enforced, ordered
