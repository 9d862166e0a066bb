"""Restorations: what makes a release exact again after the perturbation."""

from microveil.restore.calibrate import Correction, ExactMoments, correction
from microveil.restore.missing import completed, recalibrated, with_means

__all__ = ["Correction", "ExactMoments", "completed", "correction", "recalibrated", "with_means"]
