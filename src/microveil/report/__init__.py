"""Reports: the account of a release or of a study in one self-contained HTML file, with a JSON twin."""

from microveil.report.html import Texts, release_texts, study_texts, twin, write_texts
from microveil.report.material import Audit, Compared, File, Material

__all__ = ["Audit", "Compared", "File", "Material", "Texts", "release_texts", "study_texts", "twin", "write_texts"]
