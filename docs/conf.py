"""The site, built by `make site` without a network; warnings are errors."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from microveil import __version__

project, author, copyright = "microveil", "the microveil authors", "the microveil authors, Apache-2.0"  # noqa: A001 - as Sphinx calls it
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "run_pages"]
exclude_patterns = ["_ext", "_site"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
html_theme = "pydata_sphinx_theme"
html_title = "microveil"
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "tutorial": []}
html_show_sourcelink = False
napoleon_custom_sections = [("Options", "params_style")]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
nitpicky = False
# A code block of a terminal session or of TOML with a place to fill in is not always what its lexer expects.
suppress_warnings = ["misc.highlighting_failure"]
