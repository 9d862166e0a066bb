"""Runs the code blocks of every page as the site is built, and draws its pictures from what they made.

The examples of a page (`>>>`) are run in order, as pytest runs them; one that gives something else is a warning, and so
an error. A `picture` directive has lines of Python that end in an altair chart, or in something with a first screen;
they see the names that the examples of the page made. Pages whose examples take long are run by pytest only (SLOW).
"""

from __future__ import annotations

import ast
import doctest
import io
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ROOT = Path(__file__).resolve().parents[2]
_NAMES: dict[str, dict[str, Any]] = {}
"""What the examples of each page made."""


def run_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Run the examples of a page."""
    names: dict[str, Any] = {"__name__": "__main__"}
    _NAMES[page] = names
    if page in app.config.run_pages_slow:
        return
    test = doctest.DocTestParser().get_doctest(source[0], names, page, f"{page}.md", 0)
    said = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=said.write, clear_globs=False)
    names.update(test.globs)
    if runner.summarize(verbose=False).failed:
        LOGGER.warning("an example gives something else: %s", said.getvalue(), location=page)


class Picture(SphinxDirective):
    """A picture that the page itself makes."""

    has_content = True
    option_spec = {}  # noqa: RUF012 - as docutils has it

    def run(self) -> list[nodes.Node]:
        """What the lines make, in the page."""
        names = _NAMES[self.env.docname]
        body = ast.parse("\n".join(self.content))
        *before, last = body.body
        exec(compile(ast.Module(before, []), self.env.docname, "exec"), names)  # noqa: S102 - our own pages
        made = eval(compile(ast.Expression(last.value), self.env.docname, "eval"), names)  # type: ignore[attr-defined] # noqa: S307 - our own pages
        return [nodes.raw("", f'<div class="mv-picture">{_markup(made)}</div>', format="html")]


def _markup(made: Any) -> str:
    if type(made).__module__.startswith("altair"):
        return _svg(made.to_json())
    html: str = made._repr_html_()
    return html


def _svg(specification: str) -> str:
    import vl_convert

    return vl_convert.vegalite_to_svg(specification)


def setup(app: Sphinx) -> dict[str, bool]:
    """For Sphinx."""
    app.add_config_value("run_pages_slow", [], "env")
    app.connect("source-read", run_page)
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
