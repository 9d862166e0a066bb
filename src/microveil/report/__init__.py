"""Reports: the account of a release or of a study in one self-contained HTML file, with a JSON twin."""

from microveil.report.html import (
    Texts,
    assessment_texts,
    release_texts,
    study_map,
    study_texts,
    table_texts,
    twin,
    write_texts,
)
from microveil.report.material import Compared, File, Material
from microveil.report.tables import ReportedTable

__all__ = [
    "Compared",
    "File",
    "Material",
    "ReportedTable",
    "Texts",
    "assessment_texts",
    "release_texts",
    "study_map",
    "study_texts",
    "table_texts",
    "twin",
    "write_texts",
]
