"""Things that notebooks show as a page: the first screen of a report, and pictures.

How they look is decided in the room of reports, which lies outside of the rooms these things live in; so it is looked
up by its name, when somebody looks.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

HOME = "microveil.report.display"


class Displayed:
    """Has a first screen and pictures; none of them shows a value or a seed."""

    def _repr_html_(self) -> str | None:
        """The first screen, for notebooks; None where it cannot be made, so that they show the text."""
        found: str | None = import_module(HOME).html_of(self)
        return found

    def plot(self, picture: str | None = None) -> Any:
        """A picture as an altair chart, which notebooks show.

        Args:
            picture: which one; a name that is not there is answered by those that are. By default the first of them.
        """
        return import_module(HOME).chart_of(self, picture)


def warned(warnings: list[str]) -> str:
    """Warnings as lines of their own, below the line that sums up."""
    return "".join(f"\n  ! {warning}" for warning in warnings)
