"""Reports: the account of a release in one self-contained HTML file."""

from microveil.report.html import write_report

__all__ = ["write_report"]
