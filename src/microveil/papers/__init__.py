"""The papers' tables and figures as they are printed, one file for each part of a paper. A new one is a line here."""

from microveil.papers import (
    calvino_census,
    calvino_example,
    calvino_factor,
    calvino_selective,
    calvino_table4,
    dacquisto,
    hsu_chen,
    hsu_chen_examples,
    langsrud_tables,
)
from microveil.papers.base import PublishedItem

ENTRIES: dict[str, PublishedItem] = {
    entry.id: entry
    for entry in (
        calvino_example.TABLE_1,
        calvino_example.TABLE_2,
        calvino_example.TABLE_3,
        calvino_table4.TABLE_4,
        calvino_census.FIGURE_1,
        calvino_census.TABLE_5,
        calvino_census.TABLE_6,
        calvino_census.TABLE_7,
        calvino_factor.FACTORS,
        calvino_factor.FIGURE_2,
        calvino_factor.FIGURE_3,
        calvino_factor.FIGURE_4,
        calvino_selective.FIGURE_5,
        calvino_selective.FIGURE_6,
        calvino_selective.TARRAGONA_6,
        dacquisto.TABLE_1,
        dacquisto.FIGURE_4,
        hsu_chen_examples.FIGURE_5,
        hsu_chen_examples.FIGURE_7,
        hsu_chen_examples.FIGURE_8,
        hsu_chen_examples.FIGURE_10,
        *hsu_chen.TABLES,
        langsrud_tables.TABLE_1,
        langsrud_tables.TABLE_2,
        langsrud_tables.TABLE_3,
    )
}

__all__ = ["ENTRIES", "PublishedItem"]
